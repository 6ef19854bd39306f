// The timeline: where an instant stands, and the shapes of a job's row. Pure.

import { shapeOf } from "./strip.js";
import { clockOf } from "./time.js";

/** From instants in milliseconds to pixels. */
export const scaleOf = (/** @type {number} */ from, /** @type {number} */ until, /** @type {number} */ width) => (/** @type {number} */ at) =>
  Math.max(0, Math.min(width, Math.round(((at - from) / (until - from)) * width * 10) / 10));

/** The full hours of the axis, or the days of a week, in the zone that is shown, with their labels. */
export function hoursOf(/** @type {number} */ from, /** @type {number} */ until) {
  const hours = (until - from) / 3_600_000;
  const step = hours > 48 ? 24 : hours > 12 ? 3 : 1;
  const quarter = 900_000;
  /** @type {[number, string][]} */
  const found = [];
  for (let at = Math.ceil(from / quarter) * quarter; at <= until; at += quarter) {
    const { hour, minute, weekday } = clockOf(at);
    if (minute === "00" && Number(hour) % step === 0) found.push([at, step === 24 ? weekday : `${hour}:00`]);
  }
  return found;
}

/** What is at an instant, or near it: the runs, the ticks that did not run, and those to come, with their places. */
export function itemsOf(/** @type {Past} */ past) {
  return [
    ...past.holes.map((one) => ({ ...one, start: Date.parse(one.first), end: Date.parse(one.last) })),
    ...past.next.map((slot) => ({ start: Date.parse(slot), end: Date.parse(slot), outcome: "to come", why: null })),
    ...past.runs,
  ];
}

/** The row as paths by their class, on a line at this height. */
export function pathsOf(/** @type {Past} */ past, /** @type {number} */ from, /** @type {number} */ now, x, height) {
  /** @type {Record<string, string>} */
  const paths = {};
  const add = (kind, path) => (paths[kind] = (paths[kind] ?? "") + path);
  const line = height - 7;
  const left = x(Math.max(from, past.since ?? from));
  for (let at = left; at < x(past.keptFrom) - 2; at += 6) add("hatch", `M${at} ${line}l4 -8`);
  add("floor", `M${x(Math.max(from, past.keptFrom))} ${line + 0.5}H${x(now)}`);
  for (const { hole, first, last } of past.holes) {
    const [start, end] = [x(Date.parse(first)), x(Date.parse(last))];
    if (hole === "missed") add("miss", `M${start - 2} ${line - 5}l4 4m0 -4l-4 4M${start} ${line - 3}H${Math.max(end, start + 1)}`);
    else add(hole === "paused" ? "paused" : "hole", `M${start} ${line - 3}H${Math.max(end, start + 2)}`);
    if (hole === "missed") add("bad", `M${start - 3} ${line + 6}h6l-3 -5z`);
  }
  for (const run of past.runs) {
    const [start, end] = [x(run.start), x(run.end ?? now)];
    const kind = shapeOf(run);
    const [wide, high] = [Math.max(2, end - start), kind === "cut" ? 8 : 14];
    add(kind, `M${start} ${line}v${-high}h${wide}v${high}z`);
    if (kind === "bad" || kind === "lost") add("bad", `M${start - 2} ${line + 6}h6l-3 -5z`);
  }
  for (const slot of past.next) add("coming", `M${x(Date.parse(slot)) - 1.5} ${line}v-8h3v8z`);
  return paths;
}
