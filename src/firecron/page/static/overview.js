// The overview: a row of two lines for each job, those in need on top.

import { $, arrange, cell, h, kept, labels, mark, on, put, redraw, row, told } from "./dom.js";
import { actOf } from "./deeds.js";
import { showHolds } from "./holds.js";
import { known, mayAct } from "./known.js";
import { LEGEND } from "./legend.js";
import { inOrder, matches, sentence, wordsOf } from "./list.js";
import { actButton, menuButton } from "./menu.js";
import { glyph, hideTip, markOf, Strip } from "./pictures.js";
import { get } from "./server.js";
import { ago, countdown, inZone, local, placeOf, took, utc } from "./time.js";
import { hashOf, isEachsOwn, overviewHash, route, view } from "./views.js";
import { joined, mutedOf, needsHand, nowOf, schedule, toDo } from "./words.js";

/** One job on two lines. */
class Row {
  constructor(/** @type {Job} */ facts) {
    this.mark = cell();
    this.link = h("a", { href: hashOf(facts.job), class: "name" }, told(facts.job));
    this.schedule = h("span.sub");
    this.next = h("time.first");
    this.countdown = h("span.sub");
    this.now = h("span.first");
    this.why = h("bdi.sub");
    this.strip = new Strip(34);
    this.last = h("span.first");
    this.ago = h("span");
    this.took = h("span.sub");
    this.muted = h("bdi.sub");
    this.do = h("div.do");
    this.nowCell = cell({ class: "now" }, this.now, this.why, this.muted, this.do);
    this.more = cell({ class: "acts" });
    this.element = row(
      this.mark,
      cell(h("span.first", this.link), this.schedule),
      cell(this.next, this.countdown),
      this.nowCell,
      cell(this.strip.element),
      cell(this.last, this.took),
      this.more,
    );
    this.element.row = this;
    /** @type {Tick[]} */
    this.ticks = [];
    this.facts = facts;
    this.isVisible = false;
    /** @type {string | null} */
    this.drawnOf = null;
    this.draw();
    inSight.observe(this.element);
  }

  draw() {
    if (isEachsOwn()) inZone(this.facts.timezone, () => this.drawIn(placeOf()));
    else this.drawIn();
  }

  /** Draw it, with its place if times are those of each job's own zone. */
  drawIn(place = "") {
    const { facts } = this;
    const { last } = facts;
    this.element.classList.toggle("need", needsHand(facts));
    redraw(this.mark, facts.verdict, markOf);
    put(this.schedule, schedule(facts));
    mark(this.schedule, "title", joined([facts.line, facts.timezone], " · "));
    put(this.next, facts.next && local(facts.next));
    mark(this.next, "title", facts.next && utc(facts.next));
    const isPaused = facts.verdict === "paused" && !((facts.lock?.pausedUntil ?? "~") < (facts.next ?? ""));
    put(this.countdown, facts.next && joined([joined([facts.nextKey, isPaused ? "if resumed" : countdown(facts.next)]), place], " · "));
    const [first, second, isHot] = nowOf(facts);
    put(this.now, first);
    put(this.why, second);
    put(this.muted, mutedOf(facts));
    mark(this.nowCell, "title", joined([(!first || facts.verdict === "failing") && second, first && facts.why], " · "));
    this.nowCell.classList.toggle("hot", !!isHot);
    const acts = mayAct() ? facts.acts : [];
    redraw(this.do, isHot && [facts.remedy, acts, facts.lock?.unfinished], (some) => some && whatToDo(facts, acts));
    redraw(this.more, acts.length > 0, (some) => some && menuButton(facts.job, () => this.facts.acts));
    redraw(this.last, last?.outcome, (outcome) => outcome && [glyph({ outcome }), this.ago]);
    const at = last?.ended ?? last?.slot ?? last?.started;
    put(this.ago, at && ago(at));
    mark(this.last, "title", last && joined([last.outcome, at && utc(at)]));
    put(this.took, joined([last?.outcome !== "succeeded" && last?.outcome, last && last.count > 1 && `${last.count} ticks`, took(last?.durationMs)]));
    this.strip.show(this.ticks, facts);
    if (this.isVisible && this.drawnOf !== this.stripOf) want(this);
  }

  /** If this changes, the strip is old. */
  get stripOf() {
    const { last, lock, verdict, next } = this.facts;
    // Where it is well, a tick that comes changes its lock.
    return [last?.key, last?.outcome, lock?.slot, lock?.paused, verdict, verdict !== "ok" && next].join();
  }
}

/** The primary act, if there is one here; else what to do, in words. Of a run the row has its instance already. */
function whatToDo(/** @type {Job} */ { job, lock, remedy }, /** @type {string[]} */ acts) {
  const act = acts.find((one) => one === remedy?.act);
  return act ? actButton(act, job, actOf(act, { name: job, lock: { unfinished: lock?.unfinished }, tick: remedy?.tick })) : told(toDo(remedy));
}

/** @type {Map<string, Row>} */
const rows = new Map();
const inSight = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of /** @type {any[]} */ (entries)) {
      target.row.isVisible = isIntersecting;
      if (isIntersecting) target.row.draw();
    }
  },
  { rootMargin: "200px" },
);

// Strips are asked for together, when their rows come in sight.
/** @type {Set<Row>} */
const wanted = new Set();
let asking = 0;

function want(/** @type {Row} */ row) {
  if (known.trouble) return;
  wanted.add(row);
  asking ||= setTimeout(askStrips, 60);
}

async function askStrips() {
  const batch = [...wanted].slice(0, 40);
  for (const row of batch) {
    wanted.delete(row);
    row.drawnOf = row.stripOf;
  }
  try {
    const { strips, last, problems } = await get(`api/strips?names=${batch.map((row) => encodeURIComponent(row.facts.job)).join()}`);
    for (const row of batch) {
      row.ticks = strips[row.facts.job] ?? [];
      // Of rows out of sight the page knows only what their locks say of the last run.
      if (row.drawnOf === row.stripOf) {
        row.facts.last = last[row.facts.job];
        row.drawnOf = row.stripOf;
      }
      mark(row.strip.element.parentNode, "title", problems[row.facts.job]);
      row.draw();
    }
  } catch {
    for (const row of batch) row.drawnOf = null; // wanted again
  }
  asking = wanted.size ? setTimeout(askStrips, 60) : 0;
}

let touched = -Infinity;
on($("v-jobs"), "pointermove pointerdown keydown", ({ target }) => target.closest(".jobs") && (touched = performance.now()));

/** Put those in need on top, but not while somebody points at the rows or walks in them. */
function settle() {
  const compare = inOrder($("order").value, $("grouped").checked);
  const order = [...rows.values()].sort((a, b) => compare(a.facts, b.facts));
  const words = wordsOf($("filter").value);
  const found = (place, rows) => {
    const elements = $("grouped").checked && place === $("list") ? withHeadings(rows) : rows.map((row) => row.element);
    const isSame = elements.every((element) => element.parentNode === place);
    if (!isSame || performance.now() - touched > 4_000) arrange(place, elements);
    return rows.some(({ element }) => !element.hidden);
  };
  for (const row of order) row.element.hidden = !matches(row.facts, words);
  const hasActive = found($("list"), order.filter(({ facts }) => facts.verdict !== "retired"));
  const hasRetired = found($("retired"), order.filter(({ facts }) => facts.verdict === "retired"));
  $("list").hidden = $("legend").hidden = !hasActive;
  put($("list").querySelector(".labels > :nth-child(3)"), `Next, ${isEachsOwn() ? "each its own" : placeOf()}`);
  $("apart").hidden = !hasRetired;
  $("tools").hidden = rows.size === 0;
  $("nothing").hidden = hasActive || hasRetired || !known.heard;
  put($("nothing"), rows.size ? `No job matches “${$("filter").value}”.` : "Jobs appear once an instance starts that ticks (RUNTIME_INSTANCE=production).");
}

/** The rows, with a heading above those of each service. */
function withHeadings(rows) {
  const services = [...new Set(rows.map(({ facts }) => facts.service ?? ""))];
  return services.flatMap((service) => {
    const own = rows.filter(({ facts }) => (facts.service ?? "") === service);
    const heading = headings.get(service) ?? row(cell(h("strong"), " ", h("span.sub")));
    headings.set(service, heading);
    heading.hidden = own.every(({ element }) => element.hidden);
    put(heading.firstChild.firstChild, service || "no service");
    put(heading.firstChild.lastChild, sentence(own.map(({ facts }) => facts)));
    return [heading, ...own.map(({ element }) => element)];
  });
}

/** @type {Map<string, any>} */
const headings = new Map();

function showJobs() {
  for (const [job, row] of rows)
    if (!known.jobs.has(job)) {
      row.element.remove();
      rows.delete(job);
    }
  for (const [job, facts] of known.jobs) {
    const row = rows.get(job);
    if (!row) rows.set(job, new Row(facts));
    else if (row.facts !== facts) {
      row.facts = facts;
      row.draw();
    }
  }
  showHolds();
  settle();
}

on($("v-jobs"), "click", (event) => {
  const row = event.target.closest("[role=row]")?.row;
  if (!row || !getSelection()?.isCollapsed || event.target.closest("a, button")) return;
  if (event.pointerType !== "mouse" || !event.target.closest(".strip")) location.hash = row.link.hash;
});

$("order").value = kept("order") ?? "need";
$("grouped").checked = kept("grouped") === "yes";
on($("tools"), "change", () => {
  kept("order", $("order").value);
  kept("grouped", $("grouped").checked ? "yes" : "");
  touched = -Infinity;
  settle();
});

on($("filter"), "input", () => {
  history.replaceState(null, "", overviewHash());
  settle();
});

on(document, "keydown", (event) => {
  if (event.key === "Escape") hideTip();
  if (event.key !== "/" || event.target.closest("input, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (view.kind !== "jobs") {
    location.hash = overviewHash();
    route();
  }
  $("filter").focus();
});

for (const [tick, word] of LEGEND) $("legend").append(h("li", glyph(tick), word));
$("list").append(labels("Verdict", "Job", "Next", "Now", "Last 50 ticks", "Last run", "Acts"));

/** @type {Record<string, View>} */
export const VIEWS = {
  jobs: {
    show: showJobs,
    open: () => (touched = -Infinity),
    tick() {
      for (const row of rows.values()) if (row.isVisible) row.draw();
      settle();
    },
    linkOf: (job) => rows.get(job ?? "")?.link,
  },
};
