import { endAt, endBefore, equalTo, limitToFirst, limitToLast, startAfter, startAt } from "firebase/database";
import { get, onChildAdded, onChildRemoved, onValue, query, ref } from "firebase/database";
import { orderByChild, orderByKey, orderByPriority, orderByValue } from "firebase/database";
import { outcome, Record } from "../scene.mjs";

const bounds = { endAt, endBefore, equalTo, limitToFirst, limitToLast, startAfter, startAt };
const constraints = { ...bounds, orderByChild, orderByKey, orderByPriority, orderByValue };

export const build = (database, [path, ...parts]) =>
  query(ref(database, path), ...parts.map(([name, ...given]) => constraints[name](...given)));

const keysOf = (snapshot) => {
  const keys = [];
  snapshot.forEach((child) => void keys.push(child.key));
  return keys;
};

/** Each query once as a read and once as a listener, on connections of their own; returns the keys that each got. */
export async function forms(scene, { queries }) {
  const reader = scene.client();
  const answers = [];
  for (const form of queries) {
    const listener = build(scene.client(), form);
    const heard = new Record();
    onValue(listener, (snapshot) => heard.add(keysOf(snapshot)));
    answers.push([keysOf(await get(build(reader, form))), (await heard.untilThereAre(1))[0]]);
  }
  return answers;
}

/** A window on the best two scores, while others write: which children come and go, and what the window is then. */
export async function window(scene, { steps, events }) {
  const best = query(ref(scene.client(), "scores"), orderByChild("points"), limitToLast(2));
  const seen = new Record();
  const whole = new Record();
  onChildAdded(best, (child) => seen.add(["in", child.key]));
  onChildRemoved(best, (child) => seen.add(["out", child.key]));
  onValue(best, (snapshot) => whole.add(keysOf(snapshot)));
  await whole.untilThereAre(1);
  for (const [path, value] of steps) await scene.rest("PUT", path, value);
  await seen.untilThereAre(events);
  return { seen: seen.all, last: whole.all.at(-1) };
}

/** Without an index a listener gets its children, a read is refused, and the client's console has a warning. */
export async function withoutIndex(scene) {
  const warned = new Record();
  const warn = console.warn;
  console.warn = (...words) => warned.add(words.join(" "));
  scene.atEnd(() => (console.warn = warn));
  const database = scene.client({ sub: "alice" });
  const form = ["scores", ["orderByChild", "points"], ["limitToFirst", 1]];
  const heard = new Record();
  onValue(build(database, form), (snapshot) => heard.add(keysOf(snapshot)));
  await Promise.all([heard.untilThereAre(1), warned.untilThereAre(1)]);
  const read = await outcome(get(build(scene.client({ sub: "bob" }), form)));
  return { heard: heard.all[0], warned: warned.all[0], read };
}
