// The timeline's axis, and a job's row on it.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./frozen.js";
import { hoursOf, itemsOf, pathsOf, scaleOf } from "./axis.js";

const HOUR = 3_600_000;
const NOW = Date.parse("2026-11-18T12:00:00Z");
const x = scaleOf(NOW - 6 * HOUR, NOW + HOUR / 2, 650);

test("an instant stands where its time is, and nothing stands outside", () => {
  assert.deepEqual([NOW - 6 * HOUR, NOW - HOUR, NOW, NOW - 9 * HOUR, NOW + HOUR].map(x), [0, 500, 600, 0, 650]);
});

test("the axis has hours, each third hour, or days, in the zone that is shown", () => {
  const labels = (hours) => hoursOf(NOW - hours * HOUR, NOW).map(([, text]) => text);
  assert.deepEqual(labels(6), ["01:00", "02:00", "03:00", "04:00", "05:00", "06:00", "07:00"]);
  assert.deepEqual(labels(24).slice(-3), ["00:00", "03:00", "06:00"]);
  assert.deepEqual(labels(168), ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]);
});

const run = (start, length, outcome = "succeeded") => ({ start: NOW - start, end: length == null ? null : NOW - start + length, outcome, why: null });
const past = (fields) => ({ since: null, keptFrom: NOW - 9 * HOUR, runs: [], holes: [], next: [], ...fields });
const drawn = (fields) => pathsOf(past(fields), NOW - 6 * HOUR, NOW, x, 30);

test("a run is as long as it took, and one that goes on ends now", () => {
  assert.equal(drawn({ runs: [run(2 * HOUR, HOUR)] }).ran, "M400 23v-14h100v14z");
  assert.equal(drawn({ runs: [run(HOUR, null, "running")] }).going, "M500 23v-14h100v14z");
  assert.equal(drawn({ runs: [run(HOUR, 10)] }).ran, "M500 23v-14h2v14z"); // still to be seen
  assert.ok(drawn({ runs: [run(HOUR, 10, "failed")] }).bad.includes("M498 29h6l-3 -5z"));
});

test("an outage is not the shape of a pause, and a tick to come is another", () => {
  const hole = (hole) => ({ hole, why: "", first: "2026-11-18T10:00:00Z", last: "2026-11-18T11:00:00Z", count: 2 });
  assert.deepEqual(Object.keys(drawn({ holes: [hole("missed")] })), ["floor", "miss", "bad"]);
  assert.deepEqual(Object.keys(drawn({ holes: [hole("paused"), hole("skipped")] })), ["floor", "paused", "hole"]);
  assert.equal(drawn({ next: ["2026-11-18T12:15:00Z"] }).coming, "M623.5 23v-8h3v8z");
});

test("before the oldest entry the row is hatched, but not before the job was declared", () => {
  assert.match(drawn({ keptFrom: NOW - HOUR }).hatch, /^M0 23/);
  assert.match(drawn({ keptFrom: NOW - HOUR, since: NOW - 2 * HOUR }).hatch, /^M400 23/);
  assert.equal(drawn({ keptFrom: NOW - HOUR, since: NOW - HOUR }).hatch, undefined);
  assert.equal(drawn({ keptFrom: NOW - HOUR }).floor, "M500 23.5H600");
});

test("what is told of has a beginning and an end", () => {
  const holes = [{ hole: "missed", why: "", first: "2026-11-18T10:00:00Z", last: "2026-11-18T11:00:00Z", count: 2 }];
  const items = itemsOf(past({ holes, next: ["2026-11-18T12:15:00Z"], runs: [run(HOUR, 10)] }));
  assert.deepEqual(items.map(({ start, end }) => end - start), [HOUR, 0, 10]);
});
