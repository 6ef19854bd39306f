import { goOffline, goOnline, increment, onDisconnect, onValue, ref, serverTimestamp, set } from "firebase/database";
import { Record } from "../scene.mjs";

/** Leaves behind all kinds of writes for its end, leaves, and comes back; somebody else sees it go. */
export async function leaves(scene) {
  const database = scene.client();
  const at = (path) => ref(database, path);
  const seen = new Record();
  onValue(ref(scene.client(), "users/ada"), (snapshot) => seen.add(snapshot.val() ?? {}));
  await set(at("users/ada"), { online: true, device: "phone", score: 1 });
  await onDisconnect(at("users/ada/online")).set(false);
  await onDisconnect(at("users/ada")).update({ lastSeen: serverTimestamp(), score: increment(2) });
  await onDisconnect(at("users/ada/device")).remove();
  await onDisconnect(at("users/bob")).set("never");
  await onDisconnect(at("users/bob")).cancel();
  scene.report("there");
  await scene.told();
  goOffline(database);
  await seen.until((all) => all.at(-1).lastSeen && !all.at(-1).online && !all.at(-1).device, "the writes of the end");
  scene.report("gone");
  await scene.told();
  goOnline(database);
  await set(at("users/ada/online"), true);
}

/** Says that it is there whenever it is connected, as every app with presence does, and stays until the test's end. */
export async function isThere(scene, { name }) {
  const database = scene.client();
  onValue(ref(database, ".info/connected"), async (snapshot) => {
    if (snapshot.val() !== true) return;
    const place = ref(database, `present/${name}`);
    await onDisconnect(place).remove();
    await set(place, true);
    scene.report(name);
  });
  await scene.told();
}

/** Reports who is there, each time that this changes. */
export async function watches(scene) {
  onValue(ref(scene.client(), "present"), (snapshot) => scene.report(Object.keys(snapshot.val() ?? {})));
  await scene.told();
}

/** What `.info` says of the connection and of the server's clock. */
export async function info(scene) {
  const database = scene.client();
  const connected = new Record();
  const offset = new Record();
  onValue(ref(database, ".info/connected"), (snapshot) => connected.add(snapshot.val()));
  onValue(ref(database, ".info/serverTimeOffset"), (snapshot) => offset.add(snapshot.val()));
  await Promise.all([connected.untilThereAre(2), offset.until((all) => all.some(Boolean), "the server's time")]);
  goOffline(database);
  await connected.untilThereAre(3);
  return { connected: connected.all, offset: offset.all.at(-1) };
}
