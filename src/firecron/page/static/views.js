// Which view is shown, by the address, and what is said above all of them.

import { $, find, h, kept, mark, on, put, redraw } from "./dom.js";
import { known, mayAct, rowOf } from "./known.js";
import { active, detail, inNeed, sentence } from "./list.js";
import { hideTip } from "./pictures.js";
import { described } from "./server.js";
import { local, placeOf, setZone } from "./time.js";
import { joined, spelled } from "./words.js";

/**
 * The views, by their address. One shows what is known, loads what it shows besides, and is opened for a name. One that has
 * a file is in it, with others perhaps, under their names in `VIEWS`.
 * @type {Record<string, View>}
 */
export const VIEWS = {};

// `asks`: no stream tells of what it shows, so it asks again and again. `problem` is why what it asks for did not come, `missing` that it is not there itself; `job` is the address's name.
/** @type {{ kind: string, job?: string | null, problem: string, missing?: string, scrolled: number, timer: number, asks?: boolean, isOld?: boolean, facts?: string }} */
export const view = { kind: "", problem: "", scrolled: 0, timer: 0 };

export const hashOf = (/** @type {string} */ job) => `#job/${encodeURIComponent(job)}`;
export const overviewHash = () => ($("filter").value ? `#?${encodeURIComponent($("filter").value)}` : "#");

/** What a part of the address says; it may be broken. */
const decoded = (/** @type {string} */ text) => new URLSearchParams(`x=${text.replaceAll("+", "%2B")}`).get("x");

// How often a view could not be loaded. A browser may keep a failure, so the address is another one each time.
let failures = 0;

async function load(/** @type {NonNullable<View["file"]>} */ file) {
  try {
    Object.assign(VIEWS, (await file(failures ? `?${failures}` : "")).VIEWS);
    view.missing = "";
    route();
  } catch {
    failures += 1;
    view.missing = "A part of the page could not be loaded. It is tried again.";
    showState();
    setTimeout(route, 3_000);
  }
}

export function route() {
  const hash = location.hash.slice(1);
  const job = hash.startsWith("job/") ? decoded(hash.slice(4)) : null;
  const kind = job ? "job" : VIEWS[hash]?.title ? hash : "jobs";
  const { kind: before, job: left } = view;
  if (before === kind && kind !== "jobs" && left == job) return;
  const { file } = VIEWS[kind];
  if (file) return void load(file);
  if (before === "jobs") view.scrolled = scrollY;
  for (const section of find("main > section")) section.hidden = section.id !== `v-${kind}`;
  for (const link of find("nav a")) mark(link, "aria-current", (link.hash.slice(1) || "jobs").startsWith(kind) && "page");
  hideTip();
  if (kind === "jobs") $("filter").value = hash.startsWith("?") ? decoded(hash.slice(1)) : "";
  Object.assign(view, { kind, job, problem: "", asks: false });
  showZone();
  VIEWS[kind].open?.(job);
  show();
  refreshView();
  if (!before || (before === kind && kind === "jobs")) return;
  ((kind === "jobs" && VIEWS.jobs.linkOf?.(left)) || find(`#v-${kind} h1`)[0]).focus({ preventScroll: true });
  scrollTo(0, kind === "jobs" ? view.scrolled : 0);
}

// The zone of times: the reader's, UTC, or each job's own, which a job's page has at first.
const zoneKept = () => (view.kind === "job" ? "zone-of-job" : "zone");
const zoneChosen = () => kept(zoneKept()) ?? (view.kind === "job" ? "own" : "here");

/** Whether each job's times are in its own zone. */
export const isEachsOwn = () => zoneChosen() === "own";

function showZone() {
  const own = view.job && (rowOf(view.job)?.timezone ?? "UTC");
  setZone(zoneChosen() === "UTC" ? "UTC" : own && isEachsOwn() ? own : null);
  const here = placeOf(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const options = { here: `${here}, here`, UTC: "UTC", own: own ? `${placeOf(own)}, the job's` : "each job's own" };
  redraw($("zone"), options, () => Object.entries(options).map(([value, text]) => h("option", { value }, text)));
  $("zone").value = zoneChosen();
}

on($("zone"), "change", () => {
  kept(zoneKept(), $("zone").value);
  show();
  refreshView();
});

export function show() {
  showZone();
  put($("database"), known.database.replace(/^https?:\/\//, ""));
  put($("who"), joined([known.visitor.who, known.heard && !mayAct() && "may look, not act"]));
  if (known.heard) VIEWS[view.kind]?.show?.();
  showState();
  const facts = known.trouble ?? JSON.stringify(view.job ? known.jobs.get(view.job) : known.heard);
  if (facts !== view.facts) refreshView();
  view.facts = facts;
}

/** Ask for what the view shows besides the rows, once for all within a moment. */
export function refreshView() {
  view.isOld = true;
  if (view.timer || document.hidden) return;
  view.timer = setTimeout(async () => {
    view.isOld = false;
    const { kind, job } = view;
    const problem = (await VIEWS[kind]?.load?.().then(() => "", described)) ?? "";
    if (view.kind === kind && view.job === job) view.problem = problem;
    showState();
    view.timer = 0;
    if (view.isOld) refreshView();
  }, 100);
}

function showState() {
  const { trouble, heard } = known;
  const jobs = active(known.jobs.values());
  const need = inNeed(jobs);
  // Until the view's file has come, nobody hears the keys and the buttons.
  const isThere = heard && view.kind;
  document.body.className = trouble ? "away" : isThere ? "live" : "";
  put($("live"), trouble ? "away" : !isThere ? "connecting" : known.every ? `asks every ${known.every / 1_000} s` : "live");
  if (heard) put($("sentence"), (trouble ? `At ${local(heard)}: ` : "") + sentence(jobs));
  else if (trouble) put($("sentence"), "Nothing is known yet");
  const place = view.job ?? VIEWS[view.kind]?.title ?? known.database;
  document.title = `${need ? `(${need}) ` : ""}${spelled(place)} · firecron`;
  // The overview has a line of its own for it.
  const since = heard ? ` Shown as of ${local(heard)}.` : "";
  put($("problem"), view.missing || (view.kind === "jobs" ? "" : trouble ? trouble + since : view.problem));
  showDetail();
}

/** Below the sentence: who runs and who is next; or, what is wrong with the connection. */
export const showDetail = () => put($("detail"), known.trouble ?? detail(active(known.jobs.values())));
