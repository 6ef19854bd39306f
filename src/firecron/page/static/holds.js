// What operators hold: who, what, until when and why, above the jobs; and which jobs are not held although they should be.

import { $, h, on, redraw, told } from "./dom.js";
import { known, mayAct } from "./known.js";
import { choose } from "./menu.js";
import { local } from "./time.js";
import { hashOf } from "./views.js";
import { because, counted, joined } from "./words.js";

const NAMED = 10;

const links = (/** @type {string[]} */ names) => names.slice(0, NAMED).flatMap((name, index) => [index > 0 && ", ", h("a.link", { href: hashOf(name) }, told(name))]);

function hold(/** @type {Hold} */ one) {
  const { what, by, until, why, stands, held, notHeld } = one;
  const some = held === 1 ? "1 lock is" : `${held.toLocaleString("en")} locks are`;
  const said = stands ? `Held by ${by} until ${local(until)}${because(why)}` : `${some} still paused by a hold of ${by} that was taken back${because(why)}`;
  const more = notHeld.length - NAMED;
  return h(
    "div.hold",
    h("p", h("strong", told(said)), " ", h("span.sub", told(joined([what, stands && `${counted(held, "lock")} paused`], " · ")))),
    notHeld.length > 0 && h("p.error", "Not held: ", links(notHeld), more > 0 && ` and ${more.toLocaleString("en")} more`),
    mayAct() && h("button", { type: "button", "data-act": "unhold", click: () => choose("unhold", one.hold) }, "Take it back…"),
  );
}

export function showHolds() {
  redraw($("holds"), [known.holds, mayAct()], () => known.holds.map(hold));
  $("holds").hidden = !known.holds.length;
  $("hold").hidden = !mayAct() || !known.jobs.size;
}

on($("hold"), "click", () => choose("hold", ""));
