/**
 * Plays scenes of real clients, one after the other, each in a database of its own.
 *
 * A line of standard input is `{"play": "file.function", "host": …, "namespace": …, "with": {…}}`, and while a scene
 * plays `{"tell": …}`, which is for the scene. A line of standard output is `{"report": …}`, and at a scene's end
 * `{"end": …}` or `{"error": …}`. What the clients themselves print goes to standard error.
 */
import { createInterface } from "node:readline";
import { Scene } from "./scene.mjs";

console.log = console.info = console.error;

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
};
const write = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

async function play({ play: name, host, namespace, with: given }) {
  const [file, scene] = name.split(".");
  const scenes = await import(`./scenes/${file}.mjs`);
  const stage = new Scene(host, namespace, {
    report: (report) => write({ report }),
    told: async () => (await next()).tell,
  });
  try {
    return { end: (await scenes[scene](stage, given)) ?? null };
  } catch (error) {
    return { error: String(error?.stack ?? error) };
  } finally {
    await stage.close();
  }
}

process.on("unhandledRejection", (error) => write({ error: `unhandled: ${error?.stack ?? error}` }));

for (let command = await next(); command !== undefined; command = await next()) {
  write(await play(command));
}
process.exit(0);
