// The runs of a job as a list, the newest first, with the ticks that did not run. What is equal folds. Pure.

const didNotRun = (/** @type {Run} */ run) => run.outcome === "skipped" || run.outcome === "missed";

/** A row: a run, ticks in a row that did not run for one reason, or the runs between the first and the newest of an error. */
export function itemsOf(/** @type {Tick[]} */ ticks, /** @type {Run[]} */ runs) {
  const slots = new Set(ticks.map(({ slot }) => slot));
  /** @type {Item[]} */
  const all = [
    ...runs.filter((run) => !didNotRun(run)).map((run) => ({ key: run.key, from: run.slot ?? run.key, to: run.slot ?? run.key, run })),
    ...ticks.filter(({ hole }) => hole).map(({ slot, hole, why }) => holes(slot, hole, why, 1)),
    ...runs.filter((run) => didNotRun(run) && !slots.has(run.slot ?? "")).map((run) => holes(run.slot ?? run.key, run.outcome, null, run.count)),
  ];
  return foldErrors(foldHoles(all.sort((a, b) => (a.key < b.key ? 1 : -1))));
}

const holes = (slot, hole, why, count) => ({ key: slot, from: slot, to: slot, hole, why, count });

function foldHoles(/** @type {Item[]} */ items) {
  /** @type {Item[]} */
  const folded = [];
  for (const item of items) {
    const newer = folded.at(-1);
    if (item.hole && newer?.hole === item.hole && newer.why === item.why)
      Object.assign(newer, { key: item.key, from: item.from, count: (newer.count ?? 1) + (item.count ?? 1) });
    else folded.push(item);
  }
  return folded;
}

/** Of three runs and more that ended with one error, the newest and the first stay: an outage between them does as well. */
function foldErrors(/** @type {Item[]} */ items) {
  /** @type {Item[]} */
  const folded = [];
  for (let place = 0; place < items.length; place++) {
    const newest = items[place];
    folded.push(newest);
    if (!newest.run?.error) continue;
    let [last, times] = [place, 1];
    for (let next = place + 1; next < items.length; next++) {
      const { run, hole } = items[next];
      if (run ? run.outcome !== newest.run.outcome || run.error !== newest.run.error : hole === "missed") break;
      if (run) [last, times] = [next, times + 1];
    }
    if (times < 3) continue;
    const [first, between] = [items[last], items.slice(place + 1, last)];
    Object.assign(newest, { times, since: first.run?.started ?? first.from });
    folded.push({ key: `before ${first.key}`, from: between.at(-1)?.from ?? "", to: between[0].to, between }, first);
    place = last;
  }
  return folded;
}
