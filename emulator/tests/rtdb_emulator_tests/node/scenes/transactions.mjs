import { onValue, ref, runTransaction } from "firebase/database";
import { outcome, Record } from "../scene.mjs";

/** Several clients count at once on one node; returns what each of their transactions committed. */
export async function counting(scene, { clients, each }) {
  const count = async () => {
    const counter = ref(scene.client(), "counter");
    const committed = [];
    for (let turn = 0; turn < each; turn++) {
      const { committed: done, snapshot } = await runTransaction(counter, (value) => (value ?? 0) + 1);
      if (done) committed.push(snapshot.val());
    }
    return committed;
  };
  return await Promise.all(Array.from({ length: clients }, count));
}

/** A transaction on each of these places, from a client that has no idea of what is there. */
export async function onAnything(scene, { places }) {
  const answers = {};
  for (const place of places) {
    const tries = [];
    const { committed } = await runTransaction(ref(scene.client(), place), (value) => {
      tries.push(value !== null);
      return { was: value, now: true };
    });
    answers[place] = { committed, tries };
  }
  return answers;
}

/** A transaction that aborts, one that rules refuse, and one without a listener's flicker. */
export async function ends(scene) {
  const database = scene.client({ sub: "alice" });
  const kept = await runTransaction(ref(database, "open"), (value) => (value === "taken" ? undefined : value));
  const refused = await outcome(runTransaction(ref(database, "shut"), () => "mine"));
  const seen = new Record();
  onValue(ref(database, "open"), (snapshot) => seen.add(snapshot.val()));
  await seen.untilThereAre(1);
  await runTransaction(ref(database, "open"), () => "mine now", { applyLocally: false });
  return { kept: { committed: kept.committed, value: kept.snapshot.val() }, refused, seen: seen.all };
}
