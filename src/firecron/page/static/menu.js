// The buttons of acts, and the menu of a row, which has its acts. The dialogs are loaded when somebody chooses an act.

import { $, h, on } from "./dom.js";
import { mayAct } from "./known.js";
import { actWords, DESTROYING } from "./words.js";

/** @type {any} */
let opener = null;
let openedAt = 0;
const items = () => [...$("menu").children];

export async function choose(/** @type {string} */ act, /** @type {string} */ name, tick = "") {
  const { ask } = await import("./acts.js");
  ask(act, name, tick);
}

/** The button of one act. */
export const actButton = (/** @type {string} */ act, /** @type {string} */ name, /** @type {string} */ text) =>
  h(DESTROYING.includes(act) ? "button.danger" : "button", { type: "button", "data-act": act, click: () => choose(act, name) }, text);

/** The buttons of these acts, the primary one filled. */
export function buttons(/** @type {string} */ name, /** @type {string[]} */ acts, /** @type {string | null | undefined} */ primary = null, tick = "") {
  if (!mayAct()) return [];
  const kind = (act) => [act === primary && "primary", DESTROYING.includes(act) && "danger"].filter(Boolean).join(" ");
  return h("div.actions", acts.map((act) => h("button", { type: "button", class: kind(act), "data-act": act, click: () => choose(act, name, tick) }, actWords(act))));
}

/** The button that opens the menu of a job. `acts` returns what is offered by then. */
export const menuButton = (/** @type {string} */ name, /** @type {() => string[]} */ acts) =>
  h("button.more", { type: "button", "data-act": "menu", "aria-haspopup": "menu", "aria-label": `Acts on ${name}`, click: ({ currentTarget }) => open(currentTarget, name, acts()) }, "⋯");

function open(button, name, acts) {
  opener = button;
  openedAt = scrollY;
  const item = (act) => h(DESTROYING.includes(act) ? "button.danger" : "button", { type: "button", role: "menuitem", tabindex: -1, click: () => (close(), choose(act, name)) }, actWords(act));
  $("menu").replaceChildren(...acts.map(item));
  $("menu").showPopover();
  const [{ right, top, bottom }, { offsetWidth: width, offsetHeight: height }] = [button.getBoundingClientRect(), $("menu")];
  $("menu").style.left = `${Math.max(4, right - width)}px`;
  $("menu").style.top = `${bottom + height < innerHeight ? bottom : Math.max(4, top - height)}px`;
  items()[0]?.focus();
}

function close() {
  $("menu").hidePopover();
  opener?.focus();
}

on($("menu"), "keydown", (event) => {
  const all = items();
  const place = all.indexOf(document.activeElement);
  const to = { ArrowDown: (place + 1) % all.length, ArrowUp: (place || all.length) - 1, Home: 0, End: all.length - 1 }[event.key];
  if (event.key === "Tab" || event.key === "Escape") close();
  if (to === undefined && event.key !== "Escape") return;
  event.preventDefault();
  all[to ?? -1]?.focus();
});
on(document, "scroll", () => Math.abs(scrollY - openedAt) > 40 && $("menu").hidePopover());
