import { get, goOffline, goOnline, increment, onChildAdded, onValue, ref } from "firebase/database";
import { remove, runTransaction, set, update } from "firebase/database";
import { outcome, Record } from "../scene.mjs";

/** Writes while it is offline, sees them at once, and has them stored in their order when it is back. */
export async function writesOffline(scene) {
  const database = scene.client();
  const at = (path) => ref(database, path);
  const seen = new Record();
  onValue(at("note"), (snapshot) => seen.add(snapshot.val()));
  await seen.untilThereAre(1);
  goOffline(database);
  const written = [set(at("note"), { text: "one" }), update(at("note"), { mood: "fine" }), set(at("note/text"), "two")];
  written.push(set(at("draft"), 1), remove(at("draft")));
  const offline = [...seen.all];
  const stored = await scene.rest("GET", "/note");
  goOnline(database);
  await Promise.all(written);
  return { offline, stored, after: seen.all.slice(offline.length) };
}

/** What a listener hears when it is back: what changed in between, and nothing twice. */
export async function comesBack(scene) {
  const database = scene.client();
  const heard = { changed: new Record(), same: new Record(), list: new Record() };
  onValue(ref(database, "changed"), (snapshot) => heard.changed.add(snapshot.val()));
  onValue(ref(database, "same"), (snapshot) => heard.same.add(snapshot.val()));
  onChildAdded(ref(database, "list"), (child) => heard.list.add(child.key));
  await Promise.all([heard.changed.untilThereAre(1), heard.same.untilThereAre(1), heard.list.untilThereAre(2)]);
  goOffline(database);
  await scene.rest("PUT", "/changed", "after");
  await scene.rest("PUT", "/list/c", 3);
  goOnline(database);
  await Promise.all([heard.changed.untilThereAre(2), heard.list.untilThereAre(3)]);
  // Its answer comes after all that the listeners are sent first.
  await get(ref(database, "same/inner"));
  return Object.fromEntries(Object.entries(heard).map(([name, record]) => [name, record.all]));
}

/** A transaction that is begun offline counts on what the database has by then. */
export async function transactionOffline(scene) {
  const database = scene.client();
  const counter = ref(database, "counter");
  const seen = new Record();
  onValue(counter, (snapshot) => seen.add(snapshot.val()));
  await seen.untilThereAre(1);
  goOffline(database);
  const counted = outcome(runTransaction(counter, (value) => (value ?? 0) + 1));
  await scene.rest("PUT", "/counter", 100);
  goOnline(database);
  return await counted;
}

/** A write and a transaction whose answers are lost with the connection, each on one of its own. */
export async function lostAnswers(scene) {
  const claim = ref(scene.client(), "claim");
  const [counted, claimed] = await Promise.all([
    outcome(set(ref(scene.client(), "counter"), increment(1))),
    outcome(runTransaction(claim, (value) => (value === null ? "mine" : undefined))),
  ]);
  return { counted, claimed };
}
