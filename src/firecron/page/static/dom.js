// Elements. Texts become text nodes, never markup. What changes is set in place.

import { mayAct } from "./known.js";
import { ago, local, shownZone, utc } from "./time.js";
import { spelled } from "./words.js";

/** @type {(id: string) => any} */
export const $ = (id) => document.getElementById(id);
/** @type {(selector: string) => any[]} */
export const find = (selector) => [...document.querySelectorAll(selector)];
/** @type {(target: EventTarget, kinds: string, handle: (event: any) => unknown) => void} */
export const on = (target, kinds, handle) => kinds.split(" ").forEach((kind) => target.addEventListener(kind, handle));

/**
 * An element, as `span.note`. Attributes come first, if any. What is empty or false is left out.
 * @returns {any}
 */
export function h(/** @type {string} */ tag, /** @type {any[]} */ ...rest) {
  const [name, kind] = tag.split(".");
  const space = /svg|path/.test(name) ? "2000/svg" : "1999/xhtml";
  const element = document.createElementNS(`http://www.w3.org/${space}`, name);
  if (kind) mark(element, "class", kind);
  const attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === "function") on(element, name, value);
    else mark(element, name, value);
  const children = rest.flat(3).filter(Boolean);
  element.append(...children.map((child) => (child instanceof Node ? child : spelled(child))));
  return element;
}

export const labels = (...texts) => h("div.labels", { role: "row" }, texts.map((text) => h("span", { role: "columnheader" }, text)));
export const row = (...cells) => h("div", { role: "row" }, cells);
export const cell = (...rest) => Object.assign(h("div", ...rest), { role: "cell" });

/** A foreign text has a direction of its own. */
export const told = (text) => text && h("bdi", text);

export const isAddress = (/** @type {string | undefined | null} */ text) => /^https:/.test(text ?? "");

export const link = (address, text) => h("a.link", { href: address, target: "_blank", rel: "noreferrer" }, text);

/** What a program says of a job or a leader. Any writer may have set the address. */
export const about = (/** @type {{ description?: string, owner?: string, runbook?: string }} */ { description, owner, runbook }) => [
  description && h("p", told(description)),
  h("p.note", owner && ["Owner: ", told(owner)], owner && isAddress(runbook) && " · ", isAddress(runbook) && link(runbook, "Runbook")),
];

export const mono = (text) => text && h("span.mono", told(text));

export const time = (text) => text && h("time", { datetime: text, title: utc(text) }, local(text));

/** How long ago that was, which is put right each second. */
export const since = (text) => text && h("time", { datetime: text, title: utc(text), "data-ago": text }, ago(text));

/** What this browser keeps for the next visit; it may keep nothing. */
export function kept(/** @type {string} */ name, /** @type {string | null} */ value = null) {
  try {
    if (value !== null) localStorage.setItem(`firecron-${name}`, value);
    return localStorage.getItem(`firecron-${name}`);
  } catch {
    return null;
  }
}

export function put(element, text) {
  const shown = spelled(text || "");
  if (element.textContent !== shown) element.textContent = shown;
}

export function mark(element, attribute, value) {
  if (!value) element.removeAttribute(attribute);
  else if (element.getAttribute(attribute) !== spelled(value)) element.setAttribute(attribute, spelled(value));
}

/** Give the table these rows. What stays keeps its focus and its place. */
export function arrange(table, given) {
  const rows = new Set([...table.querySelectorAll(".labels"), ...given]);
  for (const row of [...table.children]) if (!rows.has(row)) row.remove();
  let place = table.firstElementChild;
  for (const row of rows)
    if (row === place) place = place.nextElementSibling;
    else table.insertBefore(row, place);
}

/** Focus the button, or if it is gone, the one of its act, or in its place. */
export function focusHeir(buttons, old, place) {
  const heirs = old.isConnected ? [old] : [buttons[place], ...buttons];
  (heirs.find((one) => one?.dataset.act === old.dataset.act) ?? heirs[0] ?? buttons[0])?.focus();
}

/** Change what is in the element, and keep the focus in it. */
export function keepFocus(element, change) {
  /** @type {any} */
  const old = document.activeElement;
  const all = () => [...element.querySelectorAll("button")];
  const place = all().indexOf(old);
  change();
  if (place >= 0 && !old.isConnected) focusHeir(all(), old, place);
}

export function redraw(element, facts, draw) {
  const seen = JSON.stringify([facts, shownZone()]);
  if (element.seen !== seen) keepFocus(element, () => element.replaceChildren(...[draw(facts)].flat().filter(Boolean)));
  element.seen = seen;
}

/** Show items as rows. What has not changed is left alone. */
export function list(table, items, keyOf, make, /** @type {unknown} */ besides = mayAct()) {
  const before = table.made;
  table.made = new Map();
  for (const item of items) {
    const facts = JSON.stringify([item, besides, shownZone()]);
    const old = before?.get(keyOf(item));
    table.made.set(keyOf(item), old?.facts === facts ? old : { facts, element: make(item) });
  }
  keepFocus(table, () => arrange(table, [...table.made.values()].map(({ element }) => element)));
}
