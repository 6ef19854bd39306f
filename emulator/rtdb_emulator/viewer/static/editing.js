// The dialog that edits, adds and deletes. What it edits or adds is refused if the node is no longer what was shown; a delete
// takes whatever is there.

import { counted, element, foreign, lines } from "./text.js";

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const NO_KEY = /[.$#[\]/\u0000-\u001f\u007f]/;
const ABSENT = "";
// The most characters of a value that a complaint shows.
const LONGEST_SHOWN = 400;
const at = (id) => document.getElementById(id);

export class Editor {
  #socket;
  #plan = null;

  /** `socket()` is the connection to write to; `closed()` is called when the dialog is. */
  constructor(socket, closed) {
    this.#socket = socket;
    this.dialog = at("editor");
    this.dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save();
    });
    this.dialog.addEventListener("close", closed);
    at("cancel").addEventListener("click", () => this.dialog.close());
    at("type").addEventListener("change", () => this.#showType());
  }

  async edit(path) {
    const { text, hash, count } = await this.#read(path);
    const isLarge = text === undefined;
    this.#begin({ path, hash, title: "Edit", verb: "Save", hasValue: !isLarge });
    if (isLarge) return this.#complain(`It has ${counted(count)}, and is too large to edit as one text.`, true);
    this.#put(text);
    const field = at("type").value === "boolean" ? at("truth") : at("value");
    field.focus();
    field.select?.();
  }

  async add(path) {
    const { text } = await this.#read(path);
    this.#begin({ path, hash: ABSENT, title: "Add a child", verb: "Add", hasValue: true, isNew: true });
    // Whatever the node holds now, a child of a value replaces it.
    if (text !== undefined && text !== "null" && !text.startsWith("{")) this.#complain("This is a value; a child replaces it.");
    at("key").focus();
  }

  remove(path, note) {
    this.#begin({ path, title: path === "/" ? "Delete the whole database" : "Delete", verb: "Delete", hasValue: false });
    at("complaint").textContent = note;
    at("cancel").focus();
  }

  async #read(path) {
    return this.#socket().request("inspect", JSON.stringify({ read: path }));
  }

  #begin(plan) {
    this.#plan = plan;
    at("editor-title").textContent = plan.title;
    at("editor-path").replaceChildren(foreign(plan.path));
    at("save").textContent = plan.verb;
    at("save").disabled = false;
    at("complaint").textContent = "";
    at("key").value = "";
    at("key-field").hidden = !plan.isNew;
    at("type-field").hidden = !plan.hasValue;
    this.#put('""');
    this.dialog.showModal();
  }

  /** Fill the fields with a value, which is JSON text. */
  #put(text) {
    const value = JSON.parse(text);
    const type = value !== null && typeof value !== "object" ? typeof value : "json";
    at("type").value = type;
    at("value").value = type === "string" ? value : text;
    at("truth").value = String(value === true || type !== "boolean");
    this.#showType();
  }

  #showType() {
    const { hasValue } = this.#plan, isTruth = at("type").value === "boolean";
    at("value-field").hidden = !hasValue || isTruth;
    at("truth-field").hidden = !hasValue || !isTruth;
    at("value").rows = at("type").value === "json" ? 12 : at("type").value === "number" ? 1 : 4;
  }

  /** What is in the fields, as JSON text: what was typed is sent as it is, so that no number loses digits. */
  #text() {
    const typed = at("value").value;
    switch (at("type").value) {
      case "string":
        return JSON.stringify(typed);
      case "boolean":
        return at("truth").value;
      case "number":
        if (!NUMBER.test(typed.trim())) throw new Error(`${JSON.stringify(typed)} is no number.`);
        return typed.trim();
      default:
        try {
          JSON.parse(typed);
        } catch (error) {
          throw new Error(`This is no JSON: ${error.message}`);
        }
        return typed;
    }
  }

  async #save() {
    const { path, hash, isNew, hasValue } = this.#plan;
    try {
      const key = at("key").value;
      if (isNew && (!key || NO_KEY.test(key))) throw new Error("A key has a character at least, and none of . $ # [ ] /");
      const target = isNew ? `${path === "/" ? "" : path}/${key}` : path;
      const written = hasValue ? `${this.#text()},"h":${JSON.stringify(hash)}` : "null";
      at("save").disabled = true;
      await this.#socket().request("p", `{"p":${JSON.stringify(target)},"d":${written}}`);
      this.dialog.close();
    } catch (error) {
      await this.#failed(error).catch((other) => this.#complain(other.message));
    }
  }

  async #failed(error) {
    at("save").disabled = false;
    if (error.status !== "datastale") return this.#complain(error.message);
    if (this.#plan.isNew) return this.#complain("There is a child of that key already.");
    const { text, hash, count } = await this.#read(this.#plan.path);
    if (text === undefined) return this.#complain(`It has changed meanwhile, and has ${counted(count)} now.`, true);
    this.#plan.hash = hash;
    const now = text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
    const shown = now.includes("\n") ? element("pre", "", ...lines(now)) : element("code", "", foreign(now));
    at("complaint").replaceChildren("It has changed meanwhile, and is now ", shown, " Save again to replace that.");
  }

  #complain(text, isFinal = false) {
    at("complaint").replaceChildren(foreign(text));
    at("save").disabled = isFinal;
  }
}
