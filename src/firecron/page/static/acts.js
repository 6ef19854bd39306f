// Acting: each act has a dialog that says what will happen, and to what. It is loaded when somebody chooses an act.

import { $, find, focusHeir, h, mark, on, put, told } from "./dom.js";
import { actOf } from "./deeds.js";
import { known, rowOf } from "./known.js";
import { live } from "./live.js";
import { get, reply } from "./server.js";
import { ago, local, localized, now, since } from "./time.js";
import { hashOf, overviewHash, refreshView } from "./views.js";
import { DESTROYING, isHeld, owner } from "./words.js";

const WHY = { name: "why", label: "Why, for the others", maxlength: 500 };
const UNTIL = { name: "until", label: "Until, in this browser's time (or empty)", type: "datetime-local" };
const instant = (text) => text && new Date(text).toISOString().replace(/\..*/, "Z");

/** In an hour, as the field has it: by this browser's clock and zone. */
const inAnHour = () => {
  const at = new Date(now() + 3_600_000);
  return new Date(+at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

/** What an act is done to: a job or lock by its name, its lock as it was seen, and the tick or run if it is of one. */
/** @typedef {{ name: string, lock: Partial<LockView>, tick?: string }} Subject */

/** @type {(of: Subject, fields: any) => object} */
const toPause = (_, { why, until }) => ({ why, until: instant(until) });
/** @type {(of: Subject, fields: any) => object} */
const toStop = ({ lock }, { why }) => ({ why, fence: lock.fence });
const paused = ({ lock }) => `No instance starts it any more.${isHeld(lock) ? " The run that is under way goes on." : ""}`;

// Each act: its path, the verb of its dialog, its body, what the dialog says, and what it asks for.
/** @type {Record<string, [string, string, (of: Subject, fields: any) => object, (of: Subject) => string, ...any[]]>} */
const ACTS = {
  run: ["run", "Run now", () => ({}), () => "It runs once, under its lock, and claims no tick."],
  run_missed: ["run", "Run the tick", ({ tick }) => ({ slot: tick }), () => "It is claimed and run. If somebody is faster, nothing happens."],
  run_again: ["run", "Run it again", ({ tick }) => ({ resume: tick }), () => "It is the next attempt. What its steps have recorded is not done again."],
  pause: ["pause", "Pause", toPause, paused, WHY, UNTIL],
  pause_until: ["pause", "Pause", toPause, paused, { ...UNTIL, label: "Until, in this browser's time", required: true, value: inAnHour }, WHY],
  resume: ["resume", "Resume", () => ({}), () => "All instances may start it again, from its next tick on."],
  cancel: ["cancel", "Stop the run", toStop, () => "It is asked to stop, and stops where it looks. Until then it keeps its lock. Its tick is not run again.", WHY],
  depose: ["cancel", "Have it step down", toStop, () => "It is asked to stop leading. Then an instance is elected anew.", WHY],
  unlock: [
    "unlock",
    "Unlock",
    ({ lock }, { why }) => ({ why, acquiredAt: lock.since }),
    ({ lock }) => `Takes it from ${owner(lock) || "its holder"}. If that run is alive, another one may run beside it until it notices.`,
    WHY,
  ],
  hold: [
    "hold",
    "Hold",
    (_, { until, why, service, match }) => ({ until: instant(until), why, service, match }),
    () => "No instance starts any job until then, also none that is declared meanwhile. Runs that are under way go on. What is paused for longer stays as it is.",
    { ...UNTIL, label: "Until, in this browser's time", required: true, value: inAnHour },
    { ...WHY, required: true },
    { name: "service", label: "Only the jobs of this service (or empty)", maxlength: 100 },
    { name: "match", label: "Only names that match, such as mail-* (or empty)", maxlength: 100 },
  ],
  unhold: ["unhold", "Take it back", ({ name }, { why }) => ({ hold: name, why }), () => "What it has paused is resumed. What was paused before, or by somebody since, stays paused.", WHY],
  mute: [
    "mute",
    "Mute",
    toPause,
    () => "Nobody is told of it until then: /health, firecron check and messages are silent. It runs as ever, and this page shows what is wrong.",
    { ...UNTIL, label: "Until, in this browser's time", required: true, value: inAnHour },
    { ...WHY, required: true },
  ],
  unmute: ["unmute", "Unmute", () => ({}), () => "Somebody is told of it again, if it needs a hand."],
  forget: ["forget", "Forget", (_, { why }) => ({ why }), () => "It leaves the catalogue, and this page. Its lock and its history stay. A program that has it declares it again.", WHY],
};

async function post(/** @type {string} */ path, /** @type {object} */ body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options).catch(() => null);
  if (!response) throw new Error("The page's server did not reply: look whether it was done.");
  return reply(response);
}

/** @type {any} */
let asked = null;
const actsHere = () => find("section:not([hidden]) button");

/** Say what will happen, and to what. Of a node that is to be mended there is nothing to say, but to show. */
export function ask(/** @type {string} */ act, /** @type {string} */ name, /** @type {string | undefined} */ tick = "") {
  if (act === "mend") {
    known.mend = name;
    location.hash = hashOf(name);
    return refreshView();
  }
  const row = rowOf(name);
  const lock = row?.lock ?? [...known.leaders, ...known.locks].find((lock) => lock.name === name) ?? {};
  const of = { name, lock, tick: tick || row?.remedy?.tick };
  const [, verb, , effect, ...fields] = ACTS[act];
  const from = /** @type {HTMLElement} */ (document.activeElement);
  asked = { act, of, from, place: actsHere().indexOf(from) };
  const title = actOf(act, of);
  $("dialog-name").replaceChildren(title.includes(name) || /hold/.test(act) ? "" : told(name));
  $("dialog-title").replaceChildren(told(title));
  $("dialog-effect").replaceChildren(told(effect(of)));
  const field = ({ label, value, ...rest }) => h("label", label, Object.assign(h("input", { autocomplete: "off", ...rest }), value && { value: value() }));
  $("dialog-fields").replaceChildren(...fields.map(field));
  put($("complaint"), "");
  put($("confirm"), verb);
  mark($("confirm"), "class", DESTROYING.includes(act) ? "danger primary" : "primary");
  $("confirm").disabled = false;
  $("dialog").showModal();
  ($("dialog-fields").querySelector("input") ?? $("leave")).focus();
}

on($("leave"), "click", () => $("dialog").close());

on($("dialog"), "close", () => focusHeir(actsHere(), asked.from, asked.place));

on($("dialog").querySelector("form"), "submit", async (event) => {
  event.preventDefault();
  const doing = asked;
  const { act, of } = doing;
  const { name } = of;
  const fields = Object.fromEntries([...new FormData(event.target)].map(([name, text]) => [name, String(text).trim()]));
  const [path, , body] = ACTS[act];
  const isOpen = () => asked === doing && $("dialog").open;
  if (/pause_until|^hold|^mute/.test(act) && !fields.until) return put($("complaint"), "Until when?");
  if (/^hold|^mute/.test(act) && !fields.why) return put($("complaint"), "Why? Others will wonder.");
  put($("complaint"), "");
  $("confirm").disabled = true;
  // The reply to a run comes when it has ended.
  const running = path === "run" ? notice(name, "It runs.", 0) : null;
  if (running) {
    $("dialog").close();
    setTimeout(() => {
      live.wake();
      refreshView();
    }, 500);
  }
  try {
    const { message, ask } = await post(/hold/.test(path) ? `api/${path}` : `api/jobs/${encodeURIComponent(name)}/${path}`, body(of, fields));
    if (isOpen()) $("dialog").close();
    if (act === "forget") location.hash = overviewHash();
    if (ask) follow(name, ask, notice(name, `Asked for, ${local(ask.at)}.`, 0));
    else notice(name, message);
  } catch (error) {
    if (isOpen()) put($("complaint"), localized(error.message));
    else notice(name, error.message, 30);
    $("confirm").disabled = false;
  }
  running?.remove();
  live.wake();
  refreshView();
});

/** Tell what becomes of an ask, until its run has ended or nobody has taken it: the run has the id of the ask. */
async function follow(/** @type {string} */ name, /** @type {{ id: string, at: string, tick: string | null }} */ ask, /** @type {any} */ element) {
  const say = (/** @type {string} */ text) => put(element.children[1], localized(text));
  const isOf = ({ key }) => key && (ask.tick ? key === ask.tick : key.endsWith(`-${ask.id}`));
  for (let waited = 0; element.isConnected; waited += 1) {
    await new Promise((done) => setTimeout(done, Math.min(1_000 + 100 * waited, 5_000)));
    const row = known.jobs.get(name);
    if (row?.ask?.id === ask.id) {
      say(row.ask.taken ? "Taken." : `Asked for ${ago(ask.at)}.`);
      continue;
    }
    const detail = await get(`api/jobs/${encodeURIComponent(name)}`).catch(() => null);
    const run = detail?.runs?.find((run) => isOf(run) && new Date(run.started ?? 0) >= new Date(ask.at));
    if (run) return notice(name, `${run.outcome} on ${owner(run)}${run.error ? `: ${run.error}` : ""}`, run.outcome === "succeeded" ? 10 : 30);
    if (detail?.running) say(`Running on ${owner(detail.running)}.`);
    else if (since(ask.at) > 330_000) return notice(name, "Nobody has run it: the acts say why.", 30);
  }
}

/** Tell of a job in place of what was told of it before: for a while, or until it is closed. */
function notice(/** @type {string} */ name, /** @type {string} */ text, seconds = 10) {
  for (const other of find("#notices p")) if (other.job === name) other.remove();
  const element = h("p", rowOf(name) ? h("a.link", { href: hashOf(name) }, told(name)) : h("span"), told(localized(text)), h("button", { type: "button", click: () => element.remove() }, "Close"));
  element.job = name;
  $("notices").append(element);
  if (seconds) setTimeout(() => element.remove(), seconds * 1_000);
  return element;
}
