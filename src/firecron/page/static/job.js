// One job: its verdict, its strip, its runs, its node in words, its next ticks and its options.

import { buttons } from "./menu.js";
import { $, about, cell, find, h, isAddress, labels, link, list, mark, mono, on, put, redraw, row, since as ago, time, told } from "./dom.js";
import { known, mayAct, rowOf } from "./known.js";
import { glyph, hideTip, markOf, Strip } from "./pictures.js";
import { itemsOf } from "./runs.js";
import { described, get } from "./server.js";
import { shapeOf, TICKS, wordOf } from "./strip.js";
import { countdown, localized, placeOf, setClock, since, span, took } from "./time.js";
import { hashOf, overviewHash, view } from "./views.js";
import { counted, inWords, joined, mutedOf, nowOf, optionWords, owner, RESUMABLE, schedule, spelled, toDo, TRIGGERS, warningOf, whyOf } from "./words.js";

class JobView {
  constructor(/** @type {string} */ job) {
    this.job = job;
    /** @type {Tick[]} */
    this.ticks = [];
    /** @type {Job | undefined} */
    this.row = undefined;
    /** @type {Detail | undefined} */
    this.detail = undefined;
    /** @type {number | undefined} */
    this.place = undefined;
    /** @type {any} */
    this.entries = null;
    this.opened = new Set();
    this.strip = new Strip(48);
    this.strip.element.tabIndex = 0;
    on(this.strip.element, "keydown", (event) => this.walk(event));
    on(this.strip.element, "blur", hideTip);
    on(this.strip.element, "click", (event) => this.openAt(this.strip.placeOf(event)));
    $("v-job").replaceChildren($("job-template").content.cloneNode(true));
    $("job-name").append(told(job));
    $("job-strip").append(this.strip.element);
    $("runs").append(labels("Outcome", "Tick", "Lag", "Took", "By", "More"));
    const [of, key] = job.split(":");
    $("back").href = key ? hashOf(of) : overviewHash();
    if (key) put($("back"), `← ${of}`);
    this.show();
  }

  show() {
    this.row = rowOf(this.job);
    const { row, detail } = this;
    redraw($("words"), row ? row.lock : detail?.lock, (lock) => inWords(lock).map((line) => h("p", told(line))));
    if (!row) return;
    redraw($("job-mark"), row.verdict, markOf);
    put($("job-schedule"), joined([schedule(row), !row.every && row.words !== row.line && row.line], " · "));
    redraw($("job-about"), [row.description, row.owner, row.runbook], () => about(row));
    redraw($("job-acts"), [row.acts, row.remedy?.act, mayAct()], () => buttons(this.job, row.acts, row.remedy?.act));
    put($("job-do"), toDo(row.remedy));
    put($("job-cannot"), mayAct() && detail?.runnable === false && !detail.stored && /ok|late|failing/.test(row.verdict) && `It can't be run from here: ${detail.why_not_runnable}.`);
    this.strip.show(this.ticks, row);
    $("job-strip").hidden = this.strip.ticks.length === 0;
    this.tick();
  }

  tick() {
    if (!this.row) return;
    const { verdict, next } = this.row;
    const why = whyOf(this.row);
    const [first, second, isHot] = nowOf(this.row);
    put($("job-now"), first || (next ? `${verdict}, next ${countdown(next)}` : verdict));
    $("job-now").classList.toggle("hot", !!isHot);
    const lines = [...new Set([verdict === "failing" && second, warningOf(this.row), why, mutedOf(this.row)])];
    mark($("job-why"), "title", this.row.why);
    redraw($("job-why"), lines, () => lines.map((line) => line && h("p", told(line))));
    for (const one of find("[data-since]")) put(one, span(since(one.dataset.since)));
    const would = this.row.verdict === "late" ? this.detail?.instances : null;
    redraw($("job-instances"), would, () => would && instanceList(would));
    this.entries?.tick();
    for (const tick of find("#next time")) put(tick.nextSibling, countdown(tick.dateTime));
  }

  async load() {
    if (this.row && !rowOf(this.job)) return; // it was forgotten
    const job = encodeURIComponent(this.job);
    const [detail, { strips }] = await Promise.all([get(`api/jobs/${job}`), get(`api/strips?names=${job}`)]);
    if (page !== this) return;
    setClock(detail.now);
    this.detail = detail;
    if (detail.job?.entry) known.entries = new Map([[this.job, detail.job]]);
    view.asks = detail.stored || !!detail.job?.entry;
    if (detail.stored) {
      this.entries ??= new (await import("./entries.js")).Entries(this.job, $("entries"));
      await this.entries.load();
      if (page !== this) return;
    }
    this.ticks = strips[this.job] ?? [];
    const runs = detail.runs ?? [];
    this.show();
    $("job-body").hidden = false;
    const ended = this.ticks.filter(({ outcome }) => outcome !== "running");
    const [longest, ends] = [Math.max(...ended.map((tick) => tick.durationMs)), this.strip.ticks];
    const scale = [longest > 0 && h("span", `longest ${took(longest)}`), time(ends.at(-1)?.slot)];
    redraw($("scale"), [longest, ends], () => [ends.length === TICKS && time(ends[0].slot), ...scale]);
    const { running } = detail;
    const items = itemsOf(this.ticks, runs);
    if (running) items.unshift({ key: "running", from: "", to: "", run: { ...running, key: "running", outcome: "running", count: 1, attempt: running.attempt ?? 1 } });
    $("no-runs").hidden = !($("runs").hidden = !items.length);
    put($("no-runs"), detail.problems.runs ?? "No run is recorded.");
    list($("runs"), items, (item) => item.key, (item) => this.itemRow(item), [mayAct(), this.row?.acts]);
    $("next-title").hidden = $("next").hidden = detail.stored;
    put($("next-title"), `Next ticks, ${placeOf()}`);
    put($("runs").querySelector(".labels > :nth-child(2)"), `Tick, ${placeOf()}`);
    redraw($("next"), detail.next, nextList);
    const { options, defaults } = detail;
    redraw($("options"), optionWords(options, defaults), (said) => said.map(([name, value]) => [h("dt", name), h("dd", told(value))]).flat());
    $("defaults").hidden = !options;
    if (known.mend === this.job) {
      known.mend = "";
      $("stored").open = true;
      $("stored").scrollIntoView({ block: "center" });
    }
    $("raw").textContent = JSON.stringify(detail.node, null, 2).split("\n").map(spelled).join("\n");
  }

  itemRow(/** @type {Item} */ item) {
    const isFree = !!this.row?.acts.some((act) => act.startsWith("run"));
    const made = item.run ? runRow(this.job, item, isFree && !!this.detail?.resumable) : item.between ? this.foldRow(item) : holeRow(item);
    return Object.assign(made, { item, tabIndex: -1 });
  }

  /** Rows that are made when somebody opens them, and stay open. */
  foldRow(/** @type {Item} */ { key, between = [] }) {
    const rows = h("div", { role: "table", class: "rows", "aria-label": "Runs like these" });
    const open = () => list(rows, between, (item) => item.key, (item) => this.itemRow(item));
    const fold = h("details", h("summary", `${counted(between.filter(({ run }) => run).length, "run")} like these`), rows);
    on(fold, "toggle", () => {
      this.opened[fold.open ? "add" : "delete"](key);
      if (fold.open) open();
    });
    fold.open = this.opened.has(key);
    return row(cell({ class: "wide fold" }, fold));
  }

  /** Lead to the row of the tick at this place. */
  openAt(/** @type {number} */ place) {
    const { slot = "", outcome } = this.strip.at(place) ?? {};
    const lies = ({ item }) => item && (outcome === "running" ? item.key === "running" : item.from <= slot && slot <= item.to);
    const found = [...$("runs").children].find(lies) ?? $("runs");
    for (const fold of found.querySelectorAll(".fold details")) fold.open = true;
    found.scrollIntoView({ block: "center" });
    found.focus({ preventScroll: true });
  }

  /** The arrows tell of one tick after another; Enter leads to its row. */
  walk(event) {
    if (event.key === "Enter" && this.place != null) this.openAt(this.place);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.place = Math.max(TICKS - this.strip.ticks.length, Math.min(TICKS - 1, (this.place ?? TICKS) + step));
    this.strip.tell(this.place);
  }
}

function holeRow(/** @type {Item} */ { from, to, hole, why, count }) {
  const many = count && count > 1 && [` ×${count}`];
  return row(
    cell(glyph({ hole }), h(hole === "missed" ? "span.error" : "span", wordOf({ hole }), many)),
    cell(time(from), many && from !== to && [" to ", time(to)]),
    cell({ class: "reason" }, told(localized(why))),
  );
}

function runRow(/** @type {string} */ job, /** @type {Item} */ { run, times, since: first }, /** @type {boolean} */ isResumable) {
  if (!run) throw new TypeError("no run");
  const isBad = ["bad", "lost"].includes(shapeOf(run));
  const begun = joined([TRIGGERS[run.trigger ?? ""], run.attempt > 1 && `attempt ${run.attempt}`]);
  const lag = run.started && run.slot ? Date.parse(run.started) - Date.parse(run.slot) : null;
  const isGoing = run.outcome === "running";
  const key = run.key.slice(20).split(":")[1];
  const more = [
    run.error && h("p.error", told(run.error), first && h("span.note", ` ×${times} since `, time(first))),
    isBad && run.error && traceback(job, run.key),
    run.steps.length && h("details", { open: isGoing }, h("summary", counted(run.steps.length, "step")), h("ol", run.steps.map((one) => step(one, isGoing)))),
  ].filter(Boolean);
  return row(
    cell(glyph(run), h(isBad ? "span.error" : "span", run.outcome), begun && h("span.sub", begun)),
    cell(time(run.slot ?? run.started) ?? told(run.key), key && [" ", h("a.link", { href: hashOf(`${job}:${key}`) }, told(key))]),
    cell({ class: "number", "data-label": "lag" }, lag == null ? null : span(lag)),
    cell({ class: "number", "data-label": isGoing ? "for" : "took" }, isGoing ? h("span", { "data-since": run.started }) : took(run.durationMs)),
    cell(mono(owner(run)), " ", told(run.note)),
    cell(
      { class: "end" },
      isResumable && RESUMABLE.includes(run.outcome) && buttons(job, ["run_again"], null, run.key),
      isAddress(run.logs) && link(run.logs, "Logs"),
    ),
    more.length > 0 && cell({ class: "wide" }, more),
  );
}

/** Where the run has failed, read when somebody asks for it. */
function traceback(/** @type {string} */ job, /** @type {string} */ key) {
  const text = h("pre.mono");
  const fold = h("details", h("summary", "Traceback"), text);
  on(fold, "toggle", async () => {
    if (!fold.open) return;
    const path = `api/jobs/${encodeURIComponent(job)}/tracebacks/${encodeURIComponent(key)}`;
    const found = await get(path).then(({ traceback }) => traceback ?? "No traceback is kept of this run.", described);
    text.textContent = found.split("\n").map(spelled).join("\n");
  });
  return fold;
}

const instanceList = (/** @type {NonNullable<Detail["instances"]>} */ would) => [
  h("p", would.length ? "These live instances would run it:" : "No live instance would run it."),
  h("ul", would.map((one) => h("li", mono(owner(one)), " started ", ago(one.startedAt), ", last sign ", ago(one.seenAt), " ", isAddress(one.logs) && link(one.logs, "Logs")))),
];

function step(/** @type {Step} */ one, isGoing = false) {
  const length = one.started && one.done && `took ${took(Date.parse(one.done) - Date.parse(one.started))}`;
  const word = one.state !== "begun" ? one.state : isGoing ? "under way" : "begun: nobody knows its end";
  return h("li", told(one.name), " ", h("span.note", joined([word, length])));
}

const nextList = (ticks) =>
  ticks.length
    ? ticks.map(({ slot, note }) => h("li", time(slot), h("span.note", countdown(slot)), note && h("p.note", told(note))))
    : h("li.note", "No tick will come.");

/** @type {JobView} */
let page;

/** @type {Record<string, View>} */
export const VIEWS = {
  job: {
    open: (job) => (page = new JobView(job)),
    show: () => page.show(),
    tick: () => page.tick(),
    load: () => page.load(),
  },
};
