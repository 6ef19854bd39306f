import { deleteApp, initializeApp } from "firebase-admin/app";
import { getDatabase, ServerValue } from "firebase-admin/database";
import { outcome, Record } from "../scene.mjs";

let made = 0;

/** A client with the database's address in production: a variable of the environment leads it to the emulator. */
function admin(scene, override) {
  process.env.FIREBASE_DATABASE_EMULATOR_HOST = `${scene.host}:${scene.port}`;
  scene.atEnd(() => delete process.env.FIREBASE_DATABASE_EMULATOR_HOST);
  // Requests over REST carry it, sockets need none.
  const credential = { getAccessToken: async () => ({ access_token: "owner", expires_in: 3600 }) };
  const options = { databaseURL: `https://${scene.namespace}.firebaseio.com`, credential };
  if (override !== undefined) options.databaseAuthVariableOverride = override;
  const app = initializeApp(options, `admin-${++made}`);
  const database = getDatabase(app);
  scene.atEnd(async () => {
    database.goOffline();
    await deleteApp(app);
  });
  return database;
}

/** An administrator does everything, past all rules. */
export async function past(scene) {
  const database = admin(scene);
  await database.ref("private").set({ b: 2, a: 1, at: ServerValue.TIMESTAMP });
  const { committed } = await database.ref("private/a").transaction((value) => (value ?? 0) + 10);
  const heard = new Record();
  database.ref("private").orderByValue().limitToFirst(1).on("child_added", (child) => heard.add(child.key));
  await heard.untilThereAre(1);
  return { committed, first: heard.all[0], value: (await database.ref("private/a").get()).val() };
}

/** What somebody may do whose `auth` is overridden. */
export async function overridden(scene, { override }) {
  const database = admin(scene, override);
  const place = (name) => database.ref(`users/${name}`);
  return {
    alice: await outcome(place("alice").set(1)),
    bob: await outcome(place("bob").set(1)),
    read: await outcome(place("alice").get()),
  };
}

/** Rules, read and replaced by the administrator. */
export async function rules(scene, { text }) {
  const database = admin(scene);
  await database.setRules(text);
  return await database.getRulesJSON();
}
