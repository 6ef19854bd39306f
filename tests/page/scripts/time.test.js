// Times in words.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./frozen.js";
import { ago, countdown, inZone, local, localized, now, placeOf, setClock, span, took } from "./time.js";

test("a span has as many units as are asked for, and no zeros", () => {
  assert.deepEqual([0, 999, 72_000, 3_600_000, 90_061_000].map((ms) => span(ms)), ["0 s", "0 s", "1 min 12 s", "1 h", "1 d 1 h"]);
  assert.equal(span(72_000, 1), "1 min");
});

test("a length below ten seconds has a tenth", () => {
  assert.deepEqual([null, 0, 999, 1_234, 10_000].map(took), ["", "0 ms", "999 ms", "1.2 s", "10 s"]);
});

test("an instant is as short as it can be without a doubt", () => {
  assert.deepEqual(
    ["2026-11-18T09:00:00Z", "2026-11-18T09:00:05Z", "2026-11-15T09:00:00Z", "2026-01-18T09:00:00Z", "2025-11-18T09:00:00Z"].map(local),
    ["04:00", "04:00:05", "Sun 04:00", "18 Jan 2026 04:00", "18 Nov 2025 04:00"],
  );
  assert.equal(local("never"), "never");
  assert.equal(localized("late since 2026-11-18T09:00:00Z"), "late since 04:00");
});

test("times can be shown in another zone, and one that the browser does not know is the reader's", () => {
  inZone("Asia/Tokyo", () => assert.deepEqual([local("2026-11-18T16:00:00Z"), placeOf()], ["Thu 01:00", "Tokyo"]));
  assert.deepEqual([local("2026-11-18T12:00:00Z"), placeOf()], ["07:00", "New York"]);
  inZone("UTC", () => assert.equal(localized("since 2026-11-17T23:30:00Z"), "since Tue 23:30"));
  inZone("Nowhere/Here", () => assert.notEqual(placeOf(), "Here"));
});

test("the clock is the server's, whatever this machine's is", () => {
  setClock("2031-01-01T00:00:00Z");
  assert.ok(Math.abs(now() - Date.parse("2031-01-01T00:00:00Z")) < 1_000);
  const before = now();
  setClock(new Date(before - 1_000).toISOString()); // whole seconds: it agrees
  assert.ok(now() >= before);
  setClock("2026-11-18T12:00:00Z");
});

test("what is to come counts down", () => {
  const at = (ms) => new Date(now() + ms).toISOString();
  assert.deepEqual([countdown(at(-5)), countdown(at(900)), countdown(at(72_900))], ["due", "now", "in 1 min 12 s"]);
  assert.equal(ago(at(-72_500)), "1 min ago");
});
