/**
 * An instance of the NestJS original that obeys commands.
 *
 * A line of standard input is a command, such as `{"do": "acquire", "name": "send-daily-digest"}`. A line of standard
 * output is the answer.
 */
import { appendFile, open, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { initializeApp } from "firebase-admin/app";
import { getDatabase } from "firebase-admin/database";
import { DistributedLockService } from "./lock-service.mjs";

// Milliseconds at most between two tries, so that firecron has its turns.
const PAUSE = 5;

const database = getDatabase(initializeApp({ databaseURL: process.argv[2] }));
const locks = new DistributedLockService(database);

const deeds = {
  async acquire({ name, late = 0 }) {
    const acquired = await new DistributedLockService(database, () => Date.now() - late).acquireLock(name);
    // The SDK takes the transaction's listener off in a timer, which was set before this one. A transaction that begins
    // before that believes what the listener has heard last, and may be refused a lock that is free by now.
    await setTimeout(0);
    return acquired;
  },
  release: async ({ name }) => (await locks.releaseLock(name), true),

  /** Runs the job again and again, until there were `runs` here and elsewhere together; returns how many were here. */
  async race({ name, folder, runs }) {
    const journal = join(folder, "journal");
    let ran = 0;
    for (let done = 0; done < runs; ) {
      await locks.withLock(name, async () => {
        const working = join(folder, "working");
        await (await open(working, "wx")).close(); // fails while another run is at work
        done = (await readFile(journal, "utf8")).length;
        if (done < runs) {
          await appendFile(journal, "o");
          ran++;
        }
        await unlink(working);
      });
      await setTimeout(PAUSE * Math.random());
    }
    return ran;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: deed, ...given } = JSON.parse(line);
  console.log(JSON.stringify(await deeds[deed](given)));
}
process.exit(0);
