// What the facts are called.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./frozen.js";
import { actOf } from "./deeds.js";
import { actWords, inWords, mutedOf, needsHand, nowOf, optionWords, schedule, spelled, toDo, whyOf } from "./words.js";

test("what would hide in a text is spelled out", () => {
  assert.equal(spelled("left \u202e right\u0007\nend"), "left \\u202e right\\u0007 ⏎ end");
});

test("a run says how long it has run, and where", () => {
  const lock = { state: "held", since: "2026-11-18T11:58:48Z", instanceId: "api-00042", instance: "00bf4b" };
  assert.deepEqual(nowOf({ verdict: "running", why: "…", lock }).slice(0, 2), ["running 1 min 12 s", "on api-00042/00bf4b"]);
});

test("an option that is no default has its words", () => {
  const options = { catchUp: "all", grace: 90, oncePerTick: true, role: null, exceptDays: [], retries: 0, holdAtLeast: 5 };
  const said = [["catch up", "all"], ["grace", "1 min 30 s"], ["once per tick", "yes"], ["hold at least", "5 s"]];
  assert.deepEqual(optionWords(options, ["retries"]), said);
});

test("a job that fails says since when, how often, and of what", () => {
  const row = { verdict: "failing", why: "…", since: "2026-11-18T11:48:00Z", failures: 12, last: { error: "ValueError: no" } };
  assert.deepEqual(nowOf(row), ["failing for 12 min, 12 times", "ValueError: no", true]);
  assert.deepEqual(nowOf({ verdict: "failing", why: "why", failures: 1 }), ["failing", "why", true]);
});

test("a schedule has its place, and an even distance none", () => {
  assert.equal(schedule({ words: "at 09:00 every day", timezone: "America/New_York" }), "at 09:00 every day, New York");
  assert.equal(schedule({ words: "every 45 seconds", timezone: "UTC", every: 45 }), "every 45 seconds");
});

test("a lock that nobody has taken has one sentence", () => {
  assert.deepEqual(inWords(undefined), ["No instance has claimed a tick yet."]);
});

test("an act says what it will do, and to which run", () => {
  const lock = { unfinished: "2026-11-18T09:00:00Z", instanceId: "api-00042", instance: "00bf4b" };
  const of = { name: "digest", lock, tick: "2026-11-18T08:00:00Z" };
  assert.equal(actOf("cancel", of), "Stop the run of 04:00 on api-00042/00bf4b");
  assert.equal(actOf("cancel", { name: "digest" }), "Stop the run");
  assert.equal(actOf("run_missed", of), "Run the missed tick of 03:00");
  assert.equal(actOf("run_again", { ...of, tick: "2026-11-18T08:00:00Z-manual-a1b2c3" }), "Run the run of 03:00 again");
  assert.equal(actOf("depose", of), "Have api-00042/00bf4b step down from digest");
  assert.equal(actOf("forget", of), "Forget digest");
});

test("a muted job says who has muted it, until when and why, and needs no hand", () => {
  const row = { verdict: "late", why: "nobody", due: "2026-11-18T11:54:00Z", muted: { by: "ops", until: "2026-11-18T19:00:00Z", why: "known" } };
  assert.equal(mutedOf(row), "muted by ops until 14:00 (known)");
  assert.equal(mutedOf({ ...row, muted: { ...row.muted, why: undefined } }), "muted by ops until 14:00");
  assert.equal(mutedOf({ ...row, muted: null }), null);
  assert.deepEqual([row, { ...row, muted: null }].map(needsHand), [false, true]);
  assert.deepEqual(nowOf(row), ["late 6 min", "nobody", true]);
});

test("no button is called cancel", () => {
  const acts = ["run", "run_missed", "run_again", "pause", "pause_until", "resume", "cancel", "depose", "unlock", "mute", "unmute", "forget", "mend"];
  for (const act of acts) assert.doesNotMatch(actWords(act), /cancel|_/i);
});

test("a remedy is a sentence, with its instants in the reader's zone", () => {
  assert.equal(toDo({ words: "run the missed tick of 2026-11-18T09:00:00Z" }), "Run the missed tick of 04:00.");
  assert.equal(toDo(null), null);
});

test("what is wrong in a node is told as it is written there", () => {
  const why = "write it like 2026-11-18T09:00:00Z";
  assert.equal(whyOf({ why, remedy: { act: "mend" } }), why);
  assert.equal(whyOf({ why }), "write it like 04:00");
});
