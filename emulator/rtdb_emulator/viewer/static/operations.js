// The last operations with their verdicts, the newest on top. Equal ones in succession are one row with their number.

import { element, foreign, plain, timeOf } from "./text.js";

const MOST = 200;

export class Operations {
  #list;
  #none;
  #waiting = [];
  #isPaused = false;
  #hrefOf;
  // The newest row: what it shows, how many operations it stands for, and its elements that change with them.
  #top = null;

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
    this.#top = null;
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
    for (const operation of this.#waiting) {
      const { at, number, ...content } = operation;
      const same = JSON.stringify(content);
      if (this.#top?.same === same) {
        this.#top.count += 1;
        this.#top.times.textContent = ` ×${this.#top.count.toLocaleString("en")}`;
        showTime(this.#top.time, at);
      } else {
        this.#top = { same, count: 1, ...this.#row(operation) };
        this.#list.prepend(this.#top.row);
      }
    }
    this.#waiting = [];
    while (this.#list.childElementCount > MOST) this.#list.lastElementChild.remove();
    this.#none.hidden = true;
  }

  #row({ at, how, path, detail, who, verdict, why }) {
    const time = element("time", "");
    showTime(time, at);
    const link = element("a", "path", foreign(path));
    link.href = this.#hrefOf(path);
    link.dataset.path = path;
    link.title = plain(path);
    const isAdmin = who === "admin";
    const shown = element("span", "verdict", verdict === "allowed" && isAdmin ? "allowed by admin" : verdict);
    if (isAdmin) shown.title = "An administrator has asked: no rule was evaluated.";
    const times = element("span", "times");
    const line = element("div", "asked", time, element("span", "how", how), element("span", "target", link, times), shown);
    const row = element("li", verdict === "allowed" ? "" : "not-allowed", line);
    if (detail) row.append(element("p", "detail", foreign(detail)));
    if (!isAdmin && !why.length) row.append(element("p", "detail", "by ", foreign(who)));
    if (why.length) row.append(element("div", "why", ...why.map((text) => element("div", "", foreign(text)))));
    return { row, time, times };
  }
}

function showTime(time, at) {
  time.textContent = timeOf(at).slice(11, 19);
  time.title = timeOf(at);
}
