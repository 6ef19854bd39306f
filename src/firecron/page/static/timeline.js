// The timeline: all jobs on one axis, so that what broke at one time stands in one column.

import { hoursOf, itemsOf, pathsOf, scaleOf } from "./axis.js";
import { $, find, h, kept, mark, on, told } from "./dom.js";
import { known } from "./known.js";
import { active, inOrder } from "./list.js";
import { hideTip, tipAt } from "./pictures.js";
import { get } from "./server.js";
import { wordOf } from "./strip.js";
import { local, localized, now, shownZone, took } from "./time.js";
import { hashOf } from "./views.js";
import { counted, joined } from "./words.js";

const HEIGHT = 30;
const RANGES = { 6: "6 h", 24: "24 h", 168: "7 d" };

const choose = h("select", { id: "tl-job", "aria-label": "Job", change: () => place() });
const ranges = h("div.actions", { role: "group", "aria-label": "Range" }, Object.entries(RANGES).map(([hours, text]) => h("button", { type: "button", "data-hours": hours, click: () => range(hours) }, text)));
const axis = h("div", { id: "tl-axis", "aria-hidden": "true" });
const body = h("div", { id: "tl", role: "list" });
const legend = h("p.note", "Hollow ticks are to come. Hatched: not kept. ▲ an instance started, ▽ it was seen last.");
find("main")[0].append(h("section", { id: "v-timeline", "aria-label": "Timeline", hidden: true }, h("h1", { tabindex: -1 }, "Timeline"), h("div", { id: "tl-tools" }, ranges, choose), axis, body, legend));

/** One job, or the marks of one service. */
class Line {
  constructor(/** @type {string} */ name, isService = false) {
    this.picture = h("svg.tl", { role: "img", tabindex: isService ? null : "0" });
    this.element = h(isService ? "div.service" : "div.job", { role: "listitem" }, isService ? h("strong", told(name)) : h("a.name", { href: hashOf(name) }, told(name)), this.picture);
    this.element.line = this.picture.line = this;
    this.name = name;
    /** @type {ReturnType<typeof itemsOf>} */
    this.items = [];
    this.isVisible = false;
    this.drawnOf = "";
  }

  draw(x, width, from) {
    mark(this.picture, "viewBox", `0 0 ${width} ${HEIGHT}`);
    const line = h("path.present", { d: `M${x(now())} 0V${HEIGHT}` });
    const past = pasts.get(this.name);
    if (this.element.className === "service") {
      const paths = (marks[this.name] ?? []).map(({ what, at, owner }) => {
        const [left, isStart] = [x(Date.parse(at)), what === "started" || what === "first run"];
        return h("path", { class: isStart ? "ink" : "ring", d: isStart ? `M${left - 4} 24h8l-4 -8z` : `M${left - 4} 16h8l-4 8z` }, h("title", `${local(at)} · ${owner}: ${what}`));
      });
      this.picture.replaceChildren(line, ...paths);
      mark(this.picture, "aria-label", `Instances: ${(marks[this.name] ?? []).map(({ what, at }) => `${what} ${local(at)}`).join(", ") || "no change"}`);
      return;
    }
    if (!past) return;
    this.items = itemsOf(past);
    this.picture.replaceChildren(line, ...Object.entries(pathsOf(past, from, now(), x, HEIGHT)).map(([kind, d]) => h(`path.${kind}`, { d })));
    const bad = past.runs.filter(({ outcome }) => outcome !== "succeeded" && outcome !== "running").length;
    const missed = past.holes.filter(({ hole }) => hole === "missed").reduce((sum, { count }) => sum + count, 0);
    mark(this.picture, "aria-label", joined([counted(past.runs.length, "run"), bad && `${bad} not succeeded`, missed && `${missed} missed`]));
  }

  /** Tell of what is nearest to this place. */
  tell(/** @type {number} */ clientX) {
    const { left, width } = this.picture.getBoundingClientRect();
    const at = span.from + ((clientX - left) / width) * (span.until - span.from);
    const far = ({ start, end }) => Math.max(start - at, at - (end ?? now()), 0);
    const item = this.items.reduce((best, one) => (best && far(best) <= far(one) ? best : one), /** @type {any} */ (null));
    if (!item || far(item) > (span.until - span.from) / 80) return hideTip();
    const isHole = "hole" in item;
    const length = isHole ? item.count > 1 && ` ×${item.count}${item.isMore ? " or more" : ""}, to ${local(item.last)}` : item.end > item.start && ` in ${took(item.end - item.start)}`;
    tipAt(clientX, this.picture, h("p", `${local(new Date(item.start).toISOString())} · ${isHole ? wordOf(item) : item.outcome}${length || ""}`), h("p", told(localized(item.why))));
  }
}

/** @type {Map<string, Past>} */
const pasts = new Map();
/** @type {Timeline["marks"]} */
let marks = {};
/** @type {Map<string, Line>} */
const lines = new Map();
let span = { from: 0, until: 1 };
const narrow = matchMedia("(max-width: 64rem)");
const inSight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of /** @type {any[]} */ (entries)) target.line.isVisible = isIntersecting;
  ask();
}, { rootMargin: "200px" });

const hours = () => kept("range") ?? "6";

function range(/** @type {string} */ chosen) {
  kept("range", chosen);
  for (const line of lines.values()) line.drawnOf = "";
  pasts.clear();
  place();
  ask();
}

/** The lines of the jobs in their order, below those of their services' instances; on a phone, of one job. */
function place() {
  const jobs = active(known.jobs.values()).sort(inOrder("need", true));
  for (const button of ranges.children) mark(button, "aria-pressed", String(button.dataset.hours === hours()));
  if (choose.children.length !== jobs.length) choose.replaceChildren(...jobs.map(({ job }) => h("option", { value: job }, job)));
  choose.hidden = !narrow.matches;
  const shown = narrow.matches ? jobs.filter(({ job }) => job === choose.value) : jobs;
  const wanted = [];
  for (const [index, { job, service }] of shown.entries()) {
    if (!index || shown[index - 1].service !== service) wanted.push(lineOf(service ?? "", true));
    wanted.push(lineOf(job, false));
  }
  const elements = wanted.map(({ element }) => element);
  if (elements.length !== body.children.length || elements.some((element, index) => element !== body.children[index])) body.replaceChildren(...elements);
  draw();
}

function lineOf(name, isService) {
  const key = `${isService}${name}`;
  const line = lines.get(key) ?? new Line(name, isService);
  if (!lines.has(key)) inSight.observe(line.element);
  lines.set(key, line);
  return line;
}

function draw() {
  const length = Number(hours()) * 3_600_000;
  span = { from: now() - length, until: now() + length / 12 };
  const width = Math.max(200, Math.round(body.querySelector(".tl")?.getBoundingClientRect().width ?? 0));
  const x = scaleOf(span.from, span.until, width);
  for (const line of lines.values()) if (line.element.isConnected) line.draw(x, width, span.from);
  axis.replaceChildren(h("span", shownZone().replace(/^.*\//, "").replaceAll("_", " ")), h("div", hoursOf(span.from, span.until).map(([at, text]) => at && Object.assign(h("span", text), { style: `left: ${(100 * x(at)) / width}%` }))));
}

let asking = 0;

/** Ask for the rows in sight that are not there, or whose jobs have changed: one request for all of them. */
function ask() {
  asking ||= setTimeout(async () => {
    asking = 0;
    if ($("v-timeline").hidden || known.trouble) return;
    const chosen = hours();
    const old = [...lines.values()].filter((line) => line.isVisible && known.jobs.has(line.name) && line.drawnOf !== changeOf(line.name)).slice(0, 100);
    if (!old.length) return;
    for (const line of old) line.drawnOf = changeOf(line.name);
    try {
      /** @type {Timeline} */
      const found = await get(`api/timeline?hours=${chosen}&names=${old.map(({ name }) => encodeURIComponent(name)).join()}`);
      if (chosen !== hours()) return;
      for (const [job, past] of Object.entries(found.rows)) if (past) pasts.set(job, past);
      marks = { ...marks, ...found.marks };
    } catch {
      for (const line of old) line.drawnOf = ""; // wanted again
    }
    draw();
  }, 60);
}

const changeOf = (/** @type {string} */ name) => {
  const { last, lock, verdict, next } = known.jobs.get(name) ?? {};
  return [last?.key, last?.fence, lock?.since, lock?.released, lock?.paused, verdict, next].join();
};

on(body, "keydown", (event) => {
  const line = event.target.line;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!line || !step || !line.items.length) return;
  event.preventDefault();
  const items = line.items.toSorted((a, b) => a.start - b.start);
  line.at = Math.max(0, Math.min(items.length - 1, (line.at ?? items.length) + step));
  const { left, width } = line.picture.getBoundingClientRect();
  line.tell(left + (Math.max(0, items[line.at].start - span.from) / (span.until - span.from)) * width);
});
on(window, "resize", () => $("v-timeline").hidden || place());

let drawnAt = 0;

/** @type {Record<string, View>} */
export const VIEWS = {
  timeline: {
    title: "Timeline",
    open: place,
    show() {
      place();
      ask();
    },
    tick() {
      if (performance.now() - drawnAt < 10_000) return;
      drawnAt = performance.now();
      draw();
    },
  },
};
