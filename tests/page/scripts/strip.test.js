// The strip: where each tick stands, and its shape.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LEGEND } from "./legend.js";
import { inWords, pathsOf, pathsOfOne, placed, shapeOf } from "./strip.js";

const slot = (minute) => `2026-11-18T15:${String(minute).padStart(2, "0")}:00Z`;
const tick = (minute, outcome, durationMs = null) => ({ slot: slot(minute), outcome, durationMs });
const hole = (minute, hole) => ({ slot: slot(minute), outcome: null, durationMs: null, hole });

test("each outcome has a shape, and an outage is not the shape of another hole", () => {
  assert.deepEqual(
    ["succeeded", "failed", "lost", "abandoned", "cancelled", "interrupted", "running"].map((outcome) => shapeOf({ outcome })),
    ["ran", "bad", "lost", "lost", "cut", "cut", "going"],
  );
  assert.deepEqual(["missed", "skipped", "paused"].map((hole) => shapeOf({ outcome: "missed", hole })), ["miss", "hole", "hole"]);
  const drawings = LEGEND.map(([shaped]) => JSON.stringify(pathsOfOne(shaped)));
  assert.equal(new Set(drawings).size, LEGEND.length);
});

test("the tick that runs stands at its slot, with those behind it at its right", () => {
  const ticks = [tick(8, "succeeded"), tick(9, "running"), hole(10, "skipped"), hole(11, "skipped")];
  const running = { ...tick(9, "running"), durationMs: 150_000 };
  assert.deepEqual(placed(ticks, running).map(({ slot, outcome }) => [slot.slice(14, 16), outcome]), [
    ["08", "succeeded"],
    ["09", "running"],
    ["10", null],
    ["11", null],
  ]);
  assert.match(pathsOf(placed(ticks, running), 34).going, /^M235.5 /); // the third from the right end, 245
  assert.match(pathsOf(placed(ticks, running), 34).ran, /^M230 /);
});

test("a tick that runs and is newer than what is known comes last; one that nobody has told of yet has no gap", () => {
  assert.deepEqual(placed([tick(8, "succeeded")], tick(9, "running")).map(({ slot }) => slot), [slot(8), slot(9)]);
  assert.deepEqual(placed([tick(8, "succeeded"), hole(10, "due")], tick(9, "running")).map(({ slot }) => slot), [slot(8), slot(9), slot(10)]);
});

test("no more than fifty ticks are shown, the newest", () => {
  const ticks = Array.from({ length: 60 }, (_, minute) => tick(minute, "succeeded"));
  assert.deepEqual([placed(ticks, null).length, placed(ticks, null)[0].slot], [50, slot(10)]);
});

test("the ticks are told in words", () => {
  const ticks = [tick(1, "succeeded"), { ...tick(2, "missed"), hole: "paused" }, hole(3, "unrecorded")];
  assert.equal(inWords(ticks), "Last 3 ticks: 1 succeeded, 1 paused, 1 not recorded");
  assert.equal(inWords([]), "No tick yet");
});
