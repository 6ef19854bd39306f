// The shapes of ticks and verdicts, as paths. Each has one of its own, with or without its colour. Pure. A unit is a
// pixel of the strip.

import { joined } from "./words.js";

export const TICKS = 50;
export const LENGTH = 5 * TICKS - 1;

const SHAPES = { succeeded: "ran", failed: "bad", lost: "lost", abandoned: "lost", running: "going" };

/** @typedef {{ outcome?: string | null, hole?: string | null }} Shaped */

/** @type {(tick: Shaped) => string} */
export const shapeOf = ({ outcome, hole }) => (hole === "missed" ? "miss" : hole || !outcome ? "hole" : (SHAPES[outcome] ?? "cut"));

const ring = (x, y, r) => `M${x} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

// Holes that are no outage, on the line y.
const HOLES = {
  skipped: (x, y) => `M${x} ${y - 3}h4`,
  paused: (x, y) => `M${x + 0.8} ${y - 5.5}v5m2.4 -5v5`,
  disabled: (x, y) => `M${x} ${y - 1}l4 -4`,
  excluded: (x, y) => `M${x} ${y - 1.5}h4m-4 -3h4`,
  due: (x, y) => ring(x + 0.4, y - 3, 1.6),
  unrecorded: (x, y) => `M${x + 1.5} ${y - 3}h1`,
};

/** Add a tick to the paths: at x, on the line y, with a bar of this height. */
function addTick(paths, /** @type {Shaped} */ tick, x, y, height) {
  const kind = shapeOf(tick);
  const add = (kind, path) => (paths[kind] = (paths[kind] ?? "") + path);
  const bar = (y, high) => `M${x} ${y}h4v${-high}h-4z`;
  const half = Math.round(Math.max(height, 7) / 2) - 1;
  if (kind === "hole") add(kind, (HOLES[tick.hole ?? ""] ?? HOLES.unrecorded)(x, y));
  else if (kind === "miss") add(kind, `M${x - 0.3} ${y - 6.3}l4.6 4.6m0 -4.6l-4.6 4.6`);
  else if (kind === "cut") add(kind, bar(y, half) + bar(y - half - 2, half));
  else if (kind === "lost" || kind === "going") add(kind, `M${x + 0.5} ${y - 0.5}h3v${1 - Math.max(height, 4)}h-3z`);
  else add(kind, bar(y, height));
  if (["bad", "lost", "miss"].includes(kind)) add("bad", `M${x - 0.5} ${y + 6}h5l-2.5 -4.5z`);
}

/** One tick by itself, as paths by their class. */
export function pathsOfOne(/** @type {Shaped} */ tick) {
  /** @type {Record<string, string>} */
  const paths = {};
  addTick(paths, tick, 1, 12, 12);
  return paths;
}

/** The ticks as paths, the newest at the right end: a bar's height is its run's length. */
export function pathsOf(/** @type {Tick[]} */ ticks, /** @type {number} */ height) {
  const line = height - 7;
  const longest = Math.max(1, ...ticks.filter(({ outcome }) => outcome !== "running").map((tick) => tick.durationMs));
  /** @type {Record<string, string>} */
  const paths = { floor: `M0 ${line + 0.5}h${LENGTH}` };
  ticks.forEach((tick, index) => {
    const high = 3 + Math.round((line - 4) * Math.sqrt(Math.max(0, Math.min(1, tick.durationMs / longest))));
    addTick(paths, tick, (TICKS - ticks.length + index) * 5, line, high);
  });
  return paths;
}

/** What became of a tick, in a word. */
export const wordOf = (/** @type {Shaped} */ { outcome, hole }) => (hole === "unrecorded" ? "not recorded" : (hole ?? outcome ?? "not known"));

/** What the ticks are, in words. */
export function inWords(/** @type {Tick[]} */ ticks) {
  const words = ticks.map(wordOf);
  const counts = [...new Set(words)].map((word) => `${words.filter((other) => other === word).length} ${word}`);
  return words.length ? `Last ${words.length} ticks: ${joined(counts)}` : "No tick yet";
}

/** The ticks in the order of their slots, with the one that runs now, by the lock: the others may be older. */
export function placed(/** @type {Tick[]} */ ticks, /** @type {Tick | null} */ running) {
  const others = ticks.filter(({ slot }) => slot !== running?.slot);
  return [...others, ...(running ? [running] : [])].sort((a, b) => (a.slot < b.slot ? -1 : 1)).slice(-TICKS);
}

/** The mark of each verdict: its class, and its path. */
export const MARKS = {
  ok: ["dot", ring(4.2, 10, 2.3)],
  running: ["going", ring(2.5, 10, 4)],
  paused: ["ink", "M2.5 6h2.8v8h-2.8zM7.7 6h2.8v8h-2.8z"],
  late: ["ring", `${ring(1.5, 10, 5)}M6.5 6.8v3.4l2.4 1.5`],
  failing: ["bad", "M0.8 15h11.4l-5.7 -10.4z"],
  stuck: ["bad", "M1.8 5.3h9.4v9.4h-9.4z"],
  unattended: ["ring", "M6.5 4.2l5.6 5.8l-5.6 5.8l-5.6 -5.8z"],
  retired: ["ink", "M3 9.4h7v1.2h-7z"],
  unknown: ["ring", "M3.6 8a2.9 2.9 0 1 1 4.4 2.5q-1.5 .9 -1.5 2.3M6.5 14.6v1.4"],
};
