// The jobs together.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./frozen.js";
import { active, detail, inOrder, matches, sentence, wordsOf } from "./list.js";

const jobs = [
  { job: "b", verdict: "ok", line: "0 9 * * *", next: "2026-11-18T12:00:30Z" },
  { job: "a", verdict: "ok", warning: "two revisions differ", service: "shop" },
  { job: "d", verdict: "late" },
  { job: "c", verdict: "unknown" },
  { job: "e", verdict: "paused", next: "2026-11-18T12:00:10Z" },
];

const ordered = (list, ...order) => list.toSorted(inOrder(...order)).map(({ job }) => job).join("");

test("those in need come first, then those worth a look, then by name", () => {
  assert.equal(ordered(jobs, "need"), "dcabe");
  assert.equal(ordered(jobs, "what a browser may have kept"), "dcabe");
});

test("a list can be in the order of names, of the next ticks, and of the length of the last runs", () => {
  const some = [
    { job: "c", next: "2026-11-18T12:00:30Z", last: { durationMs: 5 } },
    { job: "b", next: "2026-11-18T12:00:10Z" },
    { job: "d", last: { durationMs: 70 } },
    { job: "a" },
  ];
  assert.deepEqual([ordered(some, "name"), ordered(some, "next"), ordered(some, "duration")], ["abcd", "bcad", "dcab"]);
});

test("the jobs of a service can stand together, each in the order that was asked for", () => {
  const some = [{ job: "a", service: "shop" }, { job: "b" }, { job: "c", service: "desk" }, { job: "d", service: "shop", verdict: "late" }];
  assert.equal(ordered(some, "need", true), "bcda");
});

test("a filter finds all of its words, anywhere in a job", () => {
  const found = (text) => jobs.filter((job) => matches(job, wordsOf(text))).map(({ job }) => job);
  assert.deepEqual([found(" OK  shop"), found("9 b"), found("")], [["a"], ["b"], ["b", "a", "d", "c", "e"]]);
});

test("the sentence counts those in need before those worth a look", () => {
  assert.equal(sentence(jobs), "5 jobs, 1 needs a hand");
  assert.equal(sentence(jobs.slice(0, 2)), "2 jobs, all as they should be; 1 worth a look");
  assert.equal(sentence(jobs.slice(0, 1)), "1 job, as it should be");
  assert.equal(sentence(active([{ job: "x", verdict: "retired" }])), "No jobs yet");
});

test("the line below it names the next job that isn't paused", () => {
  assert.equal(detail(jobs), "1 paused · next: b in 30 s");
});
