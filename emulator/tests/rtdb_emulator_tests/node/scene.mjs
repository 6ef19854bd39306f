/** What every scene needs: clients of its database, REST past all rules, and waiting with a deadline. */
import { deleteApp, initializeApp } from "firebase/app";
import { connectDatabaseEmulator, getDatabase, goOffline } from "firebase/database";

// Milliseconds. Nothing here takes a tenth of it.
const BOUND = 20_000;

let made = 0;

export class Scene {
  #closing = [];

  constructor(host, namespace, { report, told }) {
    const { hostname, port } = new URL(`http://${host}`);
    this.host = hostname;
    this.port = Number(port);
    this.namespace = namespace;
    this.url = `http://${host}/?ns=${namespace}`;
    this.report = report;
    this.told = told;
  }

  /** A client on a connection of its own; with a user's claims as its token, if there is one. */
  client(user) {
    const app = initializeApp({ projectId: this.namespace, databaseURL: this.url }, `client-${++made}`);
    const database = getDatabase(app);
    connectDatabaseEmulator(database, this.host, this.port, user ? { mockUserToken: user } : {});
    this.atEnd(() => (goOffline(database), deleteApp(app)));
    return database;
  }

  atEnd(action) {
    this.#closing.push(action);
  }

  async close() {
    for (const action of this.#closing.reverse()) await action();
  }

  /** A request of an administrator over REST; returns the answer's value. */
  async rest(method, path, value) {
    const init = { method, headers: { Authorization: "Bearer owner" }, body: JSON.stringify(value) };
    const answer = await fetch(`http://${this.host}:${this.port}${path}.json?ns=${this.namespace}`, init);
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return await answer.json();
  }
}

/** The promise, or an error that says what was waited for. */
export async function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${BOUND} ms for ${what()}`)), BOUND);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A list that can be waited for: `add` puts in, `until` returns all as soon as they fit. */
export class Record {
  all = [];
  #waiting = new Set();

  add(one) {
    this.all.push(one);
    for (const look of this.#waiting) look();
  }

  until(fits, what) {
    const found = new Promise((resolve) => {
      const look = () => {
        if (!fits(this.all)) return;
        this.#waiting.delete(look);
        resolve(this.all);
      };
      this.#waiting.add(look);
      look();
    });
    return within(found, () => `${what}; there was ${JSON.stringify(this.all).slice(0, 500)}`);
  }

  untilThereAre(number) {
    return this.until((all) => all.length >= number, `${number} entries`);
  }
}

/** What a promise came to, as data: `"ok"`, or the error's code and message. */
export async function outcome(promise) {
  try {
    await promise;
    return "ok";
  } catch (error) {
    return { code: error.code ?? null, message: error.message };
  }
}
