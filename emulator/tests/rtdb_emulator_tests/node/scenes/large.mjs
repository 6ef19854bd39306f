import { get, onValue, ref, set } from "firebase/database";
import { Record } from "../scene.mjs";

/** Writes a text of this length; another client hears it while it listens, and a third one reads it. */
export async function text(scene, { letters }) {
  const value = "x".repeat(letters - 1) + "é";
  const heard = new Record();
  onValue(ref(scene.client(), "text"), (snapshot) => heard.add(snapshot.val()));
  await heard.untilThereAre(1);
  await set(ref(scene.client(), "text"), value);
  await heard.untilThereAre(2);
  return { heard: heard.all[1] === value, read: (await get(ref(scene.client(), "text"))).val() === value };
}

/** Reads and hears what the test has stored; says what differs. The seams of frames fall on every part of it. */
export async function seams(scene, { values }) {
  const database = scene.client();
  const torn = [];
  for (const [name, value] of Object.entries(values)) {
    const heard = new Record();
    onValue(ref(scene.client(), name), (snapshot) => heard.add(snapshot.val()));
    if ((await get(ref(database, name))).val() !== value) torn.push(`read ${name}`);
    if ((await heard.untilThereAre(1))[0] !== value) torn.push(`heard ${name}`);
  }
  return torn;
}

/** Writes values whose characters are one UTF-16 unit each, however many bytes: the client doesn't tear these. */
export async function sent(scene, { values }) {
  const database = scene.client();
  for (const [name, value] of Object.entries(values)) await set(ref(database, name), value);
}
