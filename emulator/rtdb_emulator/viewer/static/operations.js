// The last operations with their verdicts, the newest on top.

import { element, foreign, plain, timeOf } from "./text.js";

const MOST = 200;

export class Operations {
  #list;
  #none;
  #waiting = [];
  #isPaused = false;
  #hrefOf;

  /** `hrefOf` makes the address of a path. */
  constructor(hrefOf) {
    this.#hrefOf = hrefOf;
    this.#list = document.getElementById("operation-list");
    this.#none = document.getElementById("no-operations");
    const pause = document.getElementById("pause");
    pause.addEventListener("click", () => {
      this.#isPaused = !this.#isPaused;
      pause.setAttribute("aria-pressed", String(this.#isPaused));
      this.#draw();
    });
    const hide = document.getElementById("hide-allowed");
    const toggle = () => this.#list.classList.toggle("hide-allowed", hide.checked);
    hide.addEventListener("change", toggle);
    toggle(); // a browser remembers boxes over a reload
  }

  /** Forget all: the emulator begins each connection with what it still knows. */
  clear() {
    this.#waiting = [];
    this.#list.replaceChildren();
    this.#none.hidden = false;
  }

  add(operations) {
    this.#waiting.push(...operations);
    this.#waiting.splice(0, this.#waiting.length - MOST);
    this.#draw();
  }

  #draw() {
    if (this.#isPaused || !this.#waiting.length) return;
    this.#list.prepend(...this.#waiting.reverse().map((operation) => this.#row(operation)));
    this.#waiting = [];
    while (this.#list.childElementCount > MOST) this.#list.lastElementChild.remove();
    this.#none.hidden = true;
  }

  #row({ at, how, path, detail, who, verdict, why }) {
    const time = element("time", "", timeOf(at).slice(11, 19));
    time.title = timeOf(at);
    const link = element("a", "path", foreign(path));
    link.href = this.#hrefOf(path);
    link.dataset.path = path;
    link.title = plain(path);
    const line = element("div", "asked", time, element("span", "how", how), link, element("span", "verdict", verdict));
    const row = element("li", verdict === "allowed" ? "" : "not-allowed", line);
    if (detail) row.append(element("p", "detail", foreign(detail)));
    if (who !== "admin" && !why.length) row.append(element("p", "detail", "by ", foreign(who)));
    if (why.length) row.append(element("div", "why", ...why.map((text) => element("div", "", foreign(text)))));
    return row;
  }
}
