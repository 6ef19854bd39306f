// The jobs together: their order, what a filter finds, and what is said of them all. Pure.

import { countdown, now } from "./time.js";
import { counted, isHeld, joined, needsHand, owner, schedule } from "./words.js";

const rank = (/** @type {Job} */ job) => (needsHand(job) ? 0 : job.verdict === "unknown" ? 1 : job.warning || job.muted ? 2 : 3);

/** The orders of a list, by their names: those in need first, by name, who is next, and whose last run took longest. */
export const ORDERS = {
  need: rank,
  name: () => 0,
  next: (/** @type {Job} */ { next }) => (next ? Date.parse(next) : Infinity),
  duration: (/** @type {Job} */ { last }) => -(last?.durationMs ?? -1),
};

/** For `sort`: in this order, with the jobs of a service together if they are to be. */
export const inOrder = (/** @type {string} */ order, isGrouped = false) => (/** @type {Job} */ a, /** @type {Job} */ b) => {
  const [one, other] = isGrouped ? [a.service ?? "", b.service ?? ""] : ["", ""];
  if (one !== other) return one < other ? -1 : 1;
  const [first, second] = [a, b].map(ORDERS[order] ?? rank);
  return first === second ? (a.job < b.job ? -1 : 1) : first - second;
};

/** The words of a filter. */
export const wordsOf = (/** @type {string} */ text) => text.toLowerCase().split(/\s+/).filter(Boolean);

export function matches(/** @type {Job} */ job, /** @type {string[]} */ words) {
  const { verdict, line, service, where, last, lock } = job;
  const text = [job.job, verdict, schedule(job), line, service, where, last?.outcome, owner(lock), owner(last)].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** The jobs that are not retired. */
export const active = (/** @type {Iterable<Job>} */ jobs) => [...jobs].filter((job) => job.verdict !== "retired");

export const inNeed = (/** @type {Job[]} */ jobs) => jobs.filter(needsHand).length;

/** The first thing to read. */
export function sentence(/** @type {Job[]} */ jobs) {
  const [count, need] = [counted(jobs.length), inNeed(jobs)];
  const odd = jobs.filter((job) => job.warning || job.muted || job.verdict === "unknown").length;
  if (need) return `${count}, ${need} ${need === 1 ? "needs" : "need"} a hand`;
  if (jobs.length === 0) return "No jobs yet";
  return `${count}, ${jobs.length === 1 ? "as it" : "all as they"} should be${odd ? `; ${odd} worth a look` : ""}`;
}

/** The line below it: who runs, and who is next. */
export function detail(/** @type {Job[]} */ jobs) {
  const count = (test, word) => jobs.some(test) && `${jobs.filter(test).length} ${word}`;
  /** @type {{ job: string, next?: any } | null} */
  let first = null;
  for (const job of jobs)
    if (job.next && job.verdict !== "paused" && Date.parse(job.next) > now() && !(job.next > first?.next)) first = job;
  const running = count((job) => isHeld(job.lock), "running");
  const paused = count((job) => job.verdict === "paused", "paused");
  return joined([running, paused, first && `next: ${first.job} ${countdown(first.next)}`], " · ");
}
