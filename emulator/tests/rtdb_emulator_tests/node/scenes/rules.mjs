import { assertFails, assertSucceeds, initializeTestEnvironment } from "@firebase/rules-unit-testing";
import { outcome } from "../scene.mjs";

/** A suite as a user would write it: its rules are loaded, users tried, and the database is filled and cleared. */
export async function suite(scene, { rules }) {
  const environment = await initializeTestEnvironment({
    projectId: scene.namespace,
    database: { host: scene.host, port: scene.port, rules },
  });
  scene.atEnd(() => environment.cleanup());
  const alice = environment.authenticatedContext("alice", { email: "alice@example.com" }).database();
  const nobody = environment.unauthenticatedContext().database();
  await environment.withSecurityRulesDisabled((context) => context.database().ref("users").set({ alice: 1, bob: 2 }));
  await assertSucceeds(alice.ref("users/alice").set(3));
  await assertSucceeds(alice.ref("users/alice").get());
  await assertFails(alice.ref("users/bob").set(3));
  await assertFails(alice.ref("users/bob").get());
  await assertFails(alice.ref("users/alice").set("a text"));
  await assertFails(nobody.ref("users/alice").set(3));
  await assertFails(nobody.ref("users/alice").once("value"));
  await assertFails(alice.ref().update({ "users/alice": 4, "users/bob": 4 }));
  scene.report("filled");
  await scene.told();
  await environment.clearDatabase();
}

/** Rules that can't be loaded. */
export async function badRules(scene) {
  const database = { host: scene.host, port: scene.port, rules: '{"rules": {".read": "nonsense("}}' };
  return await outcome(initializeTestEnvironment({ projectId: scene.namespace, database }));
}
