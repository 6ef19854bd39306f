// The runs of a job as a list.

import assert from "node:assert/strict";
import { test } from "node:test";
import { itemsOf } from "./runs.js";

const slot = (minute) => `2026-11-18T15:${String(minute).padStart(2, "0")}:00Z`;
const run = (minute, outcome, error = null) => ({ key: slot(minute), slot: slot(minute), started: slot(minute), outcome, error, count: 1 });
const hole = (minute, hole, why = "") => ({ slot: slot(minute), outcome: null, hole, why });
const ran = (minute) => ({ slot: slot(minute), outcome: "succeeded", hole: null });

/** Each row in short: `09 ran`, `10-12 skipped 3`. */
const short = (items) =>
  items.map(({ from, to, run, hole, count, times, between }) => {
    const place = from === to ? from.slice(14, 16) : `${from.slice(14, 16)}-${to.slice(14, 16)}`;
    return `${place} ${run ? run.outcome : hole ? `${hole} ${count}` : `(${short(between)})`}${times ? ` ×${times}` : ""}`;
  });

test("runs and holes are one list, the newest first, and holes of one reason are one row", () => {
  const ticks = [ran(9), hole(10, "skipped", "a"), hole(11, "skipped", "a"), hole(12, "skipped", "b"), hole(13, "missed")];
  assert.deepEqual(short(itemsOf(ticks, [run(9, "succeeded")])), ["13 missed 1", "12 skipped 1", "10-11 skipped 2", "09 succeeded"]);
});

test("of the history's own holes there are those that no tick shows", () => {
  const entries = [{ ...run(12, "missed"), count: 70 }, run(13, "skipped"), run(14, "succeeded")];
  assert.deepEqual(short(itemsOf([hole(13, "skipped", "a")], entries)), ["14 succeeded", "13 skipped 1", "12 missed 70"]);
});

test("a run by hand stands at its time", () => {
  const byHand = { ...run(9, "succeeded"), key: `${slot(9)}-manual-ab12cd`, slot: null };
  assert.deepEqual(itemsOf([], [run(8, "failed"), byHand, run(10, "failed")]).map(({ key }) => key), [slot(10), byHand.key, slot(8)]);
});

test("equal errors fold between the newest and the first", () => {
  const failed = (minute) => run(minute, "failed", "no route to host");
  const items = itemsOf([], [run(1, "succeeded"), failed(2), failed(3), failed(4), failed(5)]);
  assert.deepEqual(short(items), ["05 failed ×4", "03-04 (04 failed,03 failed)", "02 failed", "01 succeeded"]);
  assert.equal(items[0].since, slot(2));
});

test("two equal errors, other errors, and an outage between equal ones don't fold", () => {
  assert.equal(itemsOf([], [run(1, "failed", "a"), run(2, "failed", "a")]).length, 2);
  assert.equal(itemsOf([], [run(1, "failed", "a"), run(2, "failed", "b"), run(3, "failed", "a")]).length, 3);
  assert.equal(itemsOf([], [run(1, "lost", "a"), run(2, "failed", "a"), run(3, "failed", "a")]).length, 3);
  assert.equal(itemsOf([hole(2, "missed")], [run(1, "failed", "a"), run(3, "failed", "a"), run(4, "failed", "a")]).length, 4);
  const skipped = itemsOf([hole(2, "skipped")], [run(1, "failed", "a"), run(3, "failed", "a"), run(4, "failed", "a")]);
  assert.deepEqual(short(skipped), ["04 failed ×3", "02-03 (03 failed,02 skipped 1)", "01 failed"]);
});
