import { off, onValue, ref, setWithPriority, update } from "firebase/database";
import { Record, within } from "../scene.mjs";
import { build } from "./queries.mjs";

/** What a snapshot has, with the order of its children. */
const contentOf = (snapshot) => {
  const keys = [];
  snapshot.forEach((child) => void keys.push(child.key));
  return JSON.stringify([keys, snapshot.exportVal()]);
};

const write = (database, { path, value, priority }) => {
  const place = ref(database, path);
  if (priority !== undefined) return setWithPriority(place, value, priority);
  return update(place, value);
};

/**
 * Whether after each step of writes what a listener of each query has is what a new listener of that query gets, on
 * another connection. Returns the first difference, or null.
 */
export async function fresh(scene, { queries, steps }) {
  const held = scene.client();
  const fresh = scene.client();
  const writers = [scene.client(), held];
  const views = queries.map(() => null);
  const markers = new Record();
  queries.forEach((form, at) => onValue(build(held, form), (snapshot) => (views[at] = contentOf(snapshot))));
  onValue(ref(held, "marker"), (snapshot) => markers.add(snapshot.val()));
  for (const [step, wanted] of steps.entries()) {
    for (const one of wanted) await within(write(writers[one.by], one), () => `write ${step}`);
    await scene.rest("PUT", "/marker", step);
    await markers.until((all) => all.includes(step), `marker ${step}`);
    const found = await Promise.all(
      queries.map((form) => {
        const asked = build(fresh, form);
        return within(new Promise((resolve) => onValue(asked, (snapshot) => resolve(contentOf(snapshot)))), () => `${form}`);
      }),
    );
    for (const form of queries) off(build(fresh, form));
    for (const [at, form] of queries.entries()) {
      if (views[at] !== found[at]) return { step, form, held: views[at], fresh: found[at] };
    }
  }
  return null;
}
