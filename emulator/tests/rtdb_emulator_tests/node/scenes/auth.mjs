import { _addComponent, deleteApp, initializeApp } from "firebase/app";
import { get, getDatabase, goOffline, onValue, ref, set } from "firebase/database";
import { Component } from "@firebase/component";
import { createMockUserToken } from "@firebase/util";
import { outcome, Record } from "../scene.mjs";

/** Somebody who can sign in and out, in place of the Authentication service. */
function signingIn(scene) {
  const app = initializeApp({ projectId: scene.namespace, databaseURL: scene.url }, `signing-in-${Math.random()}`);
  const listeners = new Set();
  let token = null;
  const auth = {
    getToken: async () => token && { accessToken: token },
    getUid: () => null,
    addAuthTokenListener: (listener) => listeners.add(listener),
    removeAuthTokenListener: (listener) => listeners.delete(listener),
  };
  _addComponent(app, new Component("auth-internal", () => auth, "PRIVATE"));
  const database = getDatabase(app);
  scene.atEnd(() => (goOffline(database), deleteApp(app)));
  const become = (user) => {
    token = user && createMockUserToken({ sub: user }, scene.namespace);
    for (const listener of listeners) listener(token);
  };
  return { database, become };
}

/** What three users may read and write, each on a connection of its own. */
export async function users(scene) {
  const clients = {
    alice: scene.client({ sub: "alice" }),
    admin: scene.client({ sub: "root", admin: true }),
    nobody: scene.client(),
  };
  const answers = {};
  for (const [name, database] of Object.entries(clients)) {
    const place = ref(database, "users/alice");
    answers[name] = { write: await outcome(set(place, name)), read: await outcome(get(place)) };
    const ended = new Record();
    onValue(place, () => ended.add("ok"), (error) => ended.add(error.code));
    [answers[name].listen] = await ended.untilThereAre(1);
  }
  return answers;
}

/** The same connection before, while and after somebody is signed in. */
export async function signsInAndOut(scene) {
  const { database, become } = signingIn(scene);
  const place = ref(database, "users/alice");
  const before = await outcome(set(place, "before"));
  become("alice");
  const during = await outcome(set(place, "during"));
  const heard = new Record();
  onValue(place, (snapshot) => heard.add(snapshot.val()), (error) => heard.add(error.code));
  await heard.untilThereAre(1);
  become(null);
  await heard.untilThereAre(2);
  return { before, during, after: await outcome(set(place, "after")), heard: heard.all };
}

/** The rules change under a listener: it ends, and doesn't hear of what comes then; others go on. */
export async function rulesChange(scene) {
  const database = scene.client({ sub: "alice" });
  const heard = { shut: new Record(), open: new Record() };
  for (const [name, record] of Object.entries(heard)) {
    onValue(ref(database, name), (snapshot) => record.add(snapshot.val()), (error) => record.add(error.code));
  }
  await Promise.all([heard.shut.untilThereAre(1), heard.open.untilThereAre(1)]);
  scene.report("listening");
  await scene.told();
  await heard.shut.untilThereAre(2);
  await scene.rest("PUT", "/shut", "secret");
  await scene.rest("PUT", "/open", "public");
  await heard.open.untilThereAre(2);
  return { shut: heard.shut.all, open: heard.open.all };
}
