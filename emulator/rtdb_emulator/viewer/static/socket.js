// A client of protocol 5, as an administrator: requests with their answers, pushes, and a new connection after a lost one.

const SEGMENT = 16_384;
const KEEP_ALIVE = 45_000;
const FIRST_PAUSE = 250, LONGEST_PAUSE = 4_000;

export class Socket {
  #namespace;
  #on;
  #socket = null;
  #number = 0;
  #answers = new Map();
  #missing = 0;
  #segments = [];
  #pause = FIRST_PAUSE;
  #timer = null;
  #isClosed = false;
  #beat;

  /** `on` has `live()`, `away()` and `push(body)`, which is called for what the emulator sends by itself. */
  constructor(namespace, on) {
    this.#namespace = namespace;
    this.#on = on;
    this.#beat = setInterval(() => this.#send("0"), KEEP_ALIVE);
    this.#connect();
  }

  /** Try again now, if it is away. */
  hurry() {
    if (this.#timer !== null) this.#connect();
  }

  close() {
    this.#isClosed = true;
    clearInterval(this.#beat);
    clearTimeout(this.#timer);
    this.#socket?.close();
  }

  /** Ask; `body` is JSON text. Resolves to the data of an `ok`, else rejects with a Refusal, or an Error if it is away. */
  request(action, body) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("The emulator is away."));
    const number = ++this.#number;
    return new Promise((resolve, reject) => {
      this.#answers.set(number, { resolve, reject });
      this.#send(`{"t":"d","d":{"r":${number},"a":${JSON.stringify(action)},"b":${body}}}`);
    });
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#timer = null;
    const named = this.#namespace === null ? "" : `&ns=${encodeURIComponent(this.#namespace)}`;
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/.ws?v=5${named}`);
    this.#socket = socket;
    this.#missing = 0;
    this.#segments = [];
    socket.addEventListener("message", (event) => this.#receive(event.data));
    socket.addEventListener("close", () => this.#lost());
  }

  #lost() {
    for (const { reject } of this.#answers.values()) reject(new Error("The connection was lost; this may have been done or not."));
    this.#answers.clear();
    if (this.#isClosed) return;
    this.#on.away();
    this.#timer = setTimeout(() => this.#connect(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  #receive(frame) {
    if (this.#missing) {
      this.#segments.push(frame);
      if (--this.#missing) return;
      frame = this.#segments.join("");
      this.#segments = [];
    } else if (/^\d{1,6}$/.test(frame)) {
      this.#missing = Number(frame);
      return;
    }
    const { t: kind, d: data } = JSON.parse(frame);
    if (kind === "c") this.#control(data);
    else if ("r" in data) this.#answered(data);
    else this.#on.push(data);
  }

  #control({ t: kind }) {
    if (kind === "p") this.#send('{"t":"c","d":{"t":"o","d":{}}}');
    else if (kind === "r") this.#socket.close();
    else if (kind === "h") {
      this.request("gauth", '{"cred":"owner"}').then(
        () => {
          this.#pause = FIRST_PAUSE;
          this.#on.live();
        },
        () => this.#socket.close(),
      );
    }
  }

  #answered({ r: number, b: { s: status, d: data } }) {
    const waiting = this.#answers.get(number);
    this.#answers.delete(number);
    if (status === "ok") waiting?.resolve(data);
    else waiting?.reject(new Refusal(status, data));
  }

  #send(text) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    // ASCII may be cut anywhere, and a character that is no character arrives as the client has it.
    const ascii = text.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    if (ascii.length > SEGMENT) this.#socket.send(String(Math.ceil(ascii.length / SEGMENT)));
    for (let start = 0; start < ascii.length; start += SEGMENT) this.#socket.send(ascii.slice(start, start + SEGMENT));
  }
}

/** The emulator has said no, with this status of the protocol. */
export class Refusal extends Error {
  constructor(status, text) {
    super(String(text));
    this.status = status;
  }
}
