// What is drawn: the mark of a verdict, the shape of an outcome, the strip of a job with the words of each tick.

import { $, h, mark, on, redraw, told } from "./dom.js";
import { inWords, LENGTH, MARKS, pathsOf, pathsOfOne, placed, TICKS, wordOf } from "./strip.js";
import { local, localized, since, took } from "./time.js";
import { isHeld } from "./words.js";

const drawn = (paths) => Object.entries(paths).map(([kind, d]) => h(`path.${kind}`, { d }));

export const glyph = (tick) => h("svg.glyph", { viewBox: "0 0 6 18", "aria-hidden": "true" }, drawn(pathsOfOne(tick)));

export function markOf(verdict) {
  const [kind, d] = MARKS[verdict] ?? MARKS.unknown;
  return [h("svg.mark", { viewBox: "0 0 13 20", "aria-hidden": "true" }, h(`path.${kind}`, { d })), h("span.unseen", verdict)];
}

/** A strip of the last ticks, the newest at the right end. */
export class Strip {
  constructor(/** @type {number} */ height) {
    this.height = height;
    /** @type {Tick[]} */
    this.ticks = [];
    this.element = h("svg.strip", { role: "img", viewBox: `0 0 ${LENGTH} ${height}` });
    this.element.strip = this;
  }

  /** Show the ticks, and the one that runs now, by the job's lock. */
  show(ticks, /** @type {Job} */ { lock }) {
    this.ticks = placed(ticks, lock && isHeld(lock) && lock.unfinished ? { slot: lock.unfinished, outcome: "running", durationMs: since(lock.since) } : null);
    redraw(this.element, this.ticks, (shown) => {
      mark(this.element, "aria-label", inWords(shown));
      return drawn(pathsOf(shown, this.height));
    });
  }

  /** The place that the pointer is at. */
  placeOf({ clientX }) {
    const { left, width } = this.element.getBoundingClientRect();
    return Math.floor(((clientX - left) / width) * TICKS);
  }

  /** The tick at this place. */
  at(/** @type {number} */ place) {
    return this.ticks[place - (TICKS - this.ticks.length)];
  }

  /** Tell of the tick at this place. */
  tell(/** @type {number} */ index) {
    const tick = this.at(index);
    if (!tick) return hideTip();
    const length = tick.durationMs == null ? "" : ` in ${took(tick.durationMs)}`;
    const { left, width } = this.element.getBoundingClientRect();
    const x = left + (index * width) / TICKS;
    tipAt(x, this.element, h("p", `${local(tick.slot)} · ${wordOf(tick)}${length}`), h("p", told(localized(tick.why))));
  }
}

/** Tell something above the element, or below it. */
export function tipAt(/** @type {number} */ x, element, ...children) {
  const tip = $("tip");
  tip.hidden = false;
  tip.replaceChildren(...children);
  const box = element.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${box.top > tip.offsetHeight + 4 ? box.top - tip.offsetHeight - 4 : box.bottom + 4}px`;
}

export const hideTip = () => ($("tip").hidden = true);

on(document, "scroll", hideTip);
on(document, "pointermove pointerdown", (event) => {
  const { strip, line } = event.target.closest?.(".strip, .tl") ?? {};
  if (line) return line.tell(event.clientX);
  // A finger covers ten ticks: it opens the list instead.
  if (!strip || event.pointerType === "touch") return hideTip();
  strip.tell(strip.placeOf(event));
});
