import { get, increment, limitToLast, orderByChild, query, ref, serverTimestamp } from "firebase/database";
import { off, onChildAdded, onChildChanged, onChildMoved, onChildRemoved, onValue } from "firebase/database";
import { push, remove, set, setPriority, setWithPriority, update } from "firebase/database";
import { outcome, Record } from "../scene.mjs";

/** Every kind of write, each after the answer to the one before; returns what the client reads then. */
export async function writes(scene) {
  const database = scene.client();
  const at = (path) => ref(database, path);
  const house = { rooms: ["kitchen", "hall"], floors: 2, name: "Überseehaus 🏠", old: true };
  await set(at("house"), { ...house, built: serverTimestamp() });
  await update(at("house"), { "owner/name": "Ada", floors: increment(3), old: null });
  await set(at("house/owner/age"), 36.5);
  await setWithPriority(at("ranked"), { first: 1 }, 7);
  await setPriority(at("ranked/first"), "a");
  await set(at("gone"), { for: "a moment" });
  await remove(at("gone"));
  return (await get(at("/"))).exportVal();
}

/** A list of pushed children; returns the keys in the order of the pushes. */
export async function pushes(scene, { number }) {
  const list = ref(scene.client(), "list");
  const references = Array.from({ length: number }, (_, index) => push(list, index));
  await Promise.all(references);
  return references.map(({ key }) => key);
}

/** All the child events of a list ordered by `age`, while somebody else writes what the test says. */
export async function childEvents(scene, { already, steps, events }) {
  const people = query(ref(scene.client(), "people"), orderByChild("age"));
  const seen = new Record();
  const note = (event) => (child, previous) => seen.add([event, child.key, previous ?? null]);
  onChildAdded(people, note("added"));
  onChildChanged(people, note("changed"));
  onChildMoved(people, note("moved"));
  onChildRemoved(people, (child) => seen.add(["removed", child.key, null]));
  await seen.untilThereAre(already);
  const writer = scene.client();
  for (const [path, value] of steps) await set(ref(writer, path), value);
  return await seen.untilThereAre(events);
}

/** The values that a writer's own listener sees, for a write that is granted and for one that isn't. */
export async function ownWrites(scene) {
  const database = scene.client({ sub: "alice" });
  const open = new Record();
  const shut = new Record();
  onValue(ref(database, "open"), (snapshot) => open.add(snapshot.val()));
  onValue(ref(database, "shut"), (snapshot) => shut.add(snapshot.val()));
  await Promise.all([open.untilThereAre(1), shut.untilThereAre(1)]);
  await set(ref(database, "open"), "new");
  const refused = await outcome(set(ref(database, "shut"), "new"));
  return { open: open.all, shut: shut.all, refused };
}

/** An update of several children is one state of a listener above, of one below, and of a query. */
export async function oneState(scene) {
  // Each has a connection of its own: below a listener a client sends the server no other one.
  const list = () => ref(scene.client(), "list");
  const places = { above: list().root, at: list(), window: query(list(), limitToLast(2)) };
  const seen = Object.fromEntries(Object.keys(places).map((name) => [name, new Record()]));
  for (const [name, place] of Object.entries(places)) onValue(place, (snapshot) => seen[name].add(snapshot.val()));
  await Promise.all(Object.values(seen).map((record) => record.untilThereAre(1)));
  await update(list(), { a: null, c: 30, d: 4 });
  await Promise.all(Object.values(seen).map((record) => record.untilThereAre(2)));
  return Object.fromEntries(Object.entries(seen).map(([name, record]) => [name, record.all]));
}

/** A listener that was taken off hears nothing more; one that is put on again has the value of then. */
export async function unlistened(scene) {
  const database = scene.client();
  const place = ref(database, "place");
  const first = new Record();
  const again = new Record();
  onValue(place, (snapshot) => first.add(snapshot.val()));
  await first.untilThereAre(1);
  off(place);
  await scene.rest("PUT", "/place", 2);
  onValue(place, (snapshot) => again.add(snapshot.val()));
  await again.until((all) => all.includes(2), "the value of then");
  return { first: first.all, again: again.all };
}
