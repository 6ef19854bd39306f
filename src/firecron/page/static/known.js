// What the server has said. It decides about jobs, and the page shows what it decided.

import { setClock } from "./time.js";

// `heard` is when, by the server; `trouble` is why that may be old.
// `entries` are those of a stored job that are shown; they are asked for again and again.
/** @type {Known} */
export const known = { jobs: new Map(), entries: new Map(), visitor: {}, database: "", leaders: [], locks: [], holds: [] };

/** The row of a job, or of an entry that is shown. */
export const rowOf = (/** @type {string} */ name) => known.jobs.get(name) ?? known.entries.get(name);

export const mayAct = () => known.visitor.canAct && !known.readOnly;

/** Take what was told: everything, or only what has changed; or why nothing is. */
export function take(/** @type {Told} */ { facts, isEverything, trouble }) {
  known.trouble = trouble;
  if (!facts) return;
  setClock(facts.now);
  known.heard = facts.now;
  for (const field of ["leaders", "locks", "holds", "visitor", "readOnly", "database"]) known[field] = facts[field] ?? known[field];
  if (isEverything) known.jobs.clear();
  for (const gone of facts.gone ?? []) known.jobs.delete(gone);
  for (const one of facts.jobs) known.jobs.set(one.job, one);
}
