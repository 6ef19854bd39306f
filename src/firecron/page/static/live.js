// Live. Of a browser's windows one has the stream, by a lock of the browser's, and tells the others; or it asks every
// few seconds, with an ETag. A hidden window has no part in it.

import { on } from "./dom.js";
import { known, take } from "./known.js";
import { awayBecause, described, getJobs } from "./server.js";
import { refreshView, show } from "./views.js";

// Milliseconds: while the server is away; where there is no stream; until a stream that is silent or was refused is
// tried again.
const [AGAIN, POLL, QUIET] = [3_000, 5_000, 60_000];

const HERE = `firecron ${location.pathname}`;
/** @type {{ stop: AbortController | null, isLeading: boolean, wake(): void, end(): void }} */
export const live = { stop: null, isLeading: false, wake() {}, end() {} };
const channel = new BroadcastChannel(HERE);

on(channel, "message", ({ data }) => live.stop && tell(data));

function tell(/** @type {Told} */ said) {
  take(said);
  show();
}

/** Take what was heard, and tell the other windows. */
function hear(/** @type {Told} */ said) {
  tell(said);
  if (live.isLeading) channel.postMessage(said);
}

/** Ask for everything. Returns whether it came. */
async function refresh() {
  try {
    const facts = await getJobs();
    hear(facts ? { facts, isEverything: true } : {});
    return true;
  } catch (error) {
    hear({ trouble: described(error) });
    return false;
  }
}

/** Hear the stream to its end. Returns whether it was refused. */
function listen(signal) {
  return new Promise((resolve) => {
    /** @type {EventSource & { isRefused?: boolean }} */
    const source = new EventSource("api/events");
    let isFirst = true;
    let timer = 0;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(async () => ((await refresh()) ? wait() : live.end()), QUIET);
    };
    live.end = () => {
      clearTimeout(timer);
      source.close();
      resolve(source.isRefused);
    };
    on(source, "jobs", ({ data }) => {
      known.every = 0;
      known.etag = null;
      hear({ facts: JSON.parse(data), isEverything: isFirst });
      isFirst = false;
      wait();
    });
    on(source, "away", ({ data }) => hear({ trouble: awayBecause(JSON.parse(data).message) }));
    on(source, "error", () => {
      source.isRefused = source.readyState === EventSource.CLOSED;
      live.end();
    });
    on(signal, "abort", live.end);
    wait();
  });
}

const pause = (ms) =>
  new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
    setTimeout(resolve, ms);
    live.wake = resolve;
  });

export async function attend() {
  if (document.hidden || live.stop) return;
  live.stop = new AbortController();
  const { signal } = live.stop;
  live.isLeading = !navigator.locks;
  const lead = () => {
    live.isLeading = true;
    live.wake();
    return new Promise((resolve) => on(signal, "abort", resolve));
  };
  navigator.locks?.request(HERE, { signal }, lead).catch(() => null); // hidden
  let refusedAt = -Infinity;
  while (!signal.aborted) {
    const isThere = await refresh();
    if (!isThere) refusedAt = -Infinity;
    if (isThere && live.isLeading && performance.now() - refusedAt > QUIET && !signal.aborted) {
      known.every = (await listen(signal)) ? POLL : 0;
      if (known.every) refusedAt = performance.now();
      await pause(known.every ? 0 : 500);
    } else await pause(!isThere ? AGAIN : live.isLeading ? POLL : QUIET);
  }
}

on(document, "visibilitychange", () => {
  if (document.hidden) {
    live.stop?.abort();
    live.stop = null;
    live.wake();
  } else {
    attend();
    refreshView();
  }
});

on(window, "offline", () => live.end());
on(window, "offline online", () => live.wake());
