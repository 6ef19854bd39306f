/** The lock service of the NestJS original, without NestJS: its transaction, its delete, its clock. */

const FIVE_MINUTES = 5 * 60 * 1000;

export class DistributedLockService {
  #locks;
  #now;

  /** `database` is firebase-admin's. `now` is a clock; the original's is this machine's. */
  constructor(database, now = Date.now) {
    this.#locks = database.ref("cron-locks");
    this.#now = now;
  }

  async acquireLock(lockName, ttlMs = FIVE_MINUTES) {
    const now = this.#now();
    const mine = { acquiredAt: now, expiresAt: now + ttlMs, instanceId: process.env.K_REVISION || "local" };
    try {
      const result = await this.#locks.child(lockName).transaction((current) => {
        if (current && current.expiresAt > now) return undefined; // held: leave it as it is
        return mine;
      });
      return result.committed;
    } catch (error) {
      console.error(`"${lockName}" could not be acquired, so its job does not run:`, error);
      return false;
    }
  }

  async releaseLock(lockName) {
    try {
      await this.#locks.child(lockName).remove();
    } catch (error) {
      console.error(`"${lockName}" could not be released:`, error);
    }
  }

  async withLock(lockName, job, ttlMs) {
    if (!(await this.acquireLock(lockName, ttlMs))) return;
    try {
      await job();
    } finally {
      await this.releaseLock(lockName);
    }
  }
}
