// What an act will do, and to what: for its dialog, and for the button in a row. Pure.

import { local } from "./time.js";
import { actWords, joined, owner } from "./words.js";

/** The run that holds a lock: "the run of 15:09 on api-00042". */
export const runOf = (/** @type {Partial<LockView> | null | undefined} */ lock) =>
  joined(["the run", lock?.unfinished && `of ${local(lock.unfinished)}`, owner(lock) && `on ${owner(lock)}`], " ");

/** What an act will do, and to what. */
export function actOf(/** @type {string} */ act, /** @type {{ name: string, lock?: Partial<LockView> | null, tick?: string }} */ { name, lock, tick }) {
  const at = tick && local(tick.replace(/-manual.*/, ""));
  const said = {
    run: `Run ${name} now`,
    run_missed: `Run the missed tick of ${at}`,
    run_again: `Run the ${tick?.includes("manual") ? "run" : "tick"} of ${at} again`,
    pause: `Pause ${name}`,
    pause_until: `Pause ${name} for a while`,
    resume: `Resume ${name}`,
    cancel: `Stop ${runOf(lock)}`,
    depose: `Have ${owner(lock) || "its leader"} step down from ${name}`,
    unlock: `Unlock ${name}`,
    mute: `Mute ${name}`,
    unmute: `Unmute ${name}`,
    forget: `Forget ${name}`,
    hold: "Hold all jobs",
    unhold: "Take the hold back",
  };
  return said[act] ?? actWords(act);
}
