// What the shapes of the strips mean, below the overview. Pure.

/** @type {[import("./strip.js").Shaped, string][]} */
export const LEGEND = [
  [{ outcome: "succeeded" }, "succeeded"],
  [{ outcome: "failed" }, "failed"],
  [{ outcome: "lost" }, "lost, or abandoned"],
  [{ hole: "missed" }, "missed: nobody ran it"],
  [{ outcome: "cancelled" }, "cancelled, or interrupted"],
  [{ outcome: "running" }, "running"],
  [{ hole: "skipped" }, "skipped: a run stood in its way"],
  [{ hole: "paused" }, "paused"],
  [{ hole: "disabled" }, "disabled"],
  [{ hole: "excluded" }, "excluded day"],
  [{ hole: "due" }, "due"],
  [{ hole: "unrecorded" }, "not recorded"],
];
