// What the facts are called. Pure: facts in, texts out.

import { local, localized, placeOf, since, span } from "./time.js";

/** The text, with control characters, marks of direction and invisible characters spelled out. */
export function spelled(/** @type {unknown} */ text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (hidden) => (hidden === "\n" ? " ⏎ " : `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}

export const joined = (/** @type {unknown[]} */ texts, between = ", ") => texts.filter(Boolean).join(between);

export const counted = (/** @type {number} */ count, word = "job") => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

export const because = (/** @type {unknown} */ why) => (why ? `: ${why}` : "");

export const owner = (/** @type {{ instanceId?: string, instance?: string } | null | undefined} */ of) => joined([of?.instanceId, of?.instance], "/");

// --- a job

export const RESUMABLE = ["failed", "lost", "abandoned", "interrupted", "cancelled"];

/** @type {Record<string, string>} */
export const TRIGGERS = { catch_up: "caught up", rerun: "begun again", manual: "by hand", http: "by a trigger", firebase: "by Firebase" };

export const schedule = (/** @type {Job} */ row) =>
  joined([localized(row.words ?? row.line), !row.every && row.words !== row.line && row.timezone && placeOf(row.timezone)]);

/** Whether it is not as it should be, and nobody has said that this is known. */
export const needsHand = (/** @type {Job} */ row) => !row.muted && ["unattended", "stuck", "late", "failing"].includes(row.verdict);

/** That nobody is told of it: who has asked for that, until when and why. */
export const mutedOf = (/** @type {Job} */ { muted }) => muted && `muted by ${muted.by} until ${local(muted.until)}${muted.why ? ` (${muted.why})` : ""}`;

export const isHeld = (/** @type {LockView | null | undefined} */ lock) => lock?.state === "held";

/** Why the verdict is what it is. What is wrong in a node is told as it is written there. */
export const whyOf = (/** @type {Job} */ { why, remedy }) => (remedy?.act === "mend" ? why : localized(why));

export const warningOf = (/** @type {Job} */ { warning, why }) => warning && localized(warning === true ? why : warning);

/**
 * What happens now: first line, second line, whether somebody should look.
 * @returns {[string, (string | null)?, unknown?]}
 */
export function nowOf(/** @type {Job} */ row) {
  const { lock, verdict } = row;
  const [why, warning] = [whyOf(row), warningOf(row)];
  const by = owner(lock) && `on ${owner(lock)}`;
  const lasting = (text, units = 1) => (text ? ` ${span(since(text), units)}` : "");
  const held = lock?.since ?? row.since;
  const { ask } = row;
  if (ask && !isHeld(lock) && verdict !== "paused") return [`asked by ${ask.by}${lasting(ask.at)} ago`, ask.why, needsHand(row)];
  const also = (text) => joined([row.warning !== true && text, warning], " · ") || why;
  if (verdict === "running") return [`running${lasting(held, 2)}${lock?.cancelled ? ", asked to stop" : ""}`, also(by), warning];
  if (verdict === "late") return [`late${lasting(row.due ?? row.since)}`, why, true];
  if (verdict === "stuck") return [`stuck${lasting(held)}`, why, true];
  const times = row.failures > 1 && `, ${row.failures} times`;
  if (verdict === "failing") return [joined([verdict, row.since && ` for${lasting(row.since)}`, times], ""), row.last?.error || why, true];
  if (verdict === "unattended") return [joined([verdict, row.since && `for${lasting(row.since)}`], " "), why, true];
  if (verdict === "unknown") return ["not known", why, true];
  if (verdict === "ok") return warning ? ["worth a look", warning, true] : ["", row.last?.note];
  if (verdict !== "paused") return [verdict, why, warning];
  const until = lock?.pausedUntil ? ` until ${local(lock.pausedUntil)}` : "";
  const whose = joined([lock?.pausedBy && `by ${lock.pausedBy}`, lock?.pausedWhy], ": ");
  return [joined([lock?.paused ? `paused${until}` : "disabled", isHeld(lock) && `still running ${by}`]), (also(whose) ?? "").replace(/^paused /, ""), warning];
}

/** The options that are no defaults, as pairs of words: "catch up" from `catchUp`. */
export function optionWords(/** @type {Record<string, unknown> | null} */ options, /** @type {string[]} */ defaults) {
  const said = (key, value) => {
    if (/every|grace|Runtime|Window|ttl|Least/.test(key)) return span(value * 1_000);
    return typeof value === "boolean" ? (value ? "yes" : "no") : localized(String(value));
  };
  const words = (key) => key.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const set = Object.entries(options ?? {}).filter(([key, value]) => `${value ?? ""}` && !defaults.includes(key));
  return set.map(([key, value]) => [words(key), said(key, value)]);
}

// --- what can be done

/** @type {Record<string, string>} */
const ACT_WORDS = {
  run: "Run now",
  run_missed: "Run the missed tick",
  run_again: "Run again",
  pause: "Pause…",
  pause_until: "Pause until…",
  resume: "Resume",
  cancel: "Stop this run",
  depose: "Step down",
  unlock: "Unlock…",
  mute: "Mute…",
  unmute: "Unmute",
  forget: "Forget…",
  mend: "Show the node",
};
export const DESTROYING = ["cancel", "depose", "unlock", "forget"];

export const actWords = (/** @type {string} */ act) => ACT_WORDS[act] ?? act;

/** What to do, as a sentence. */
export const toDo = (/** @type {{ words: string } | null | undefined} */ remedy) =>
  remedy && `${remedy.words.charAt(0).toUpperCase()}${localized(remedy.words.slice(1))}.`;

// --- a lock

/** What a lock's node says, in sentences. */
export function inWords(/** @type {LockView | null | undefined} */ lock) {
  if (!lock || lock.state === "absent") return ["No instance has claimed a tick yet."];
  const by = owner(lock) || "A holder without a name";
  const states = {
    held: `${by} has held it since ${local(lock.since)}, until ${local(lock.until)} if it is not renewed.`,
    minimum_hold: `${by} has released it. It is kept until ${local(lock.until)}, as the job asks.`,
    free: lock.released ? `Free: ${by} released it at ${local(lock.released)}.` : "Free.",
    died: `Free: ${by} has had it since ${local(lock.since)}, and did not renew it after ${local(lock.until)}.`,
    unlocked: `Unlocked. ${by} may still run, until its next renewal.`,
    malformed: "Nobody can claim it.",
  };
  return [
    states[lock.state],
    lock.slot && `The newest claimed tick is ${joined([local(lock.slot), lock.attempt > 1 && `attempt ${lock.attempt}`])}${because(lock.outcome)}.`,
    lock.unfinished && !isHeld(lock) && `Nobody saw the end of the tick ${local(lock.unfinished)}.`,
    ...besides(lock),
  ].filter(Boolean);
}

/** What somebody has done to the lock, and what is wrong with it. */
export function besides(/** @type {LockView} */ lock) {
  const until = lock.pausedUntil && `until ${local(lock.pausedUntil)}`;
  return [
    lock.paused && `${joined(["Paused", lock.pausedBy && `by ${lock.pausedBy}`, until], " ")}${because(lock.pausedWhy)}.`,
    lock.cancelled && `Its holder was asked to stop${because(lock.cancelWhy)}.`,
    lock.problem && `${lock.problem}.`,
    toDo(lock.remedy),
  ].filter(Boolean);
}
