// The page: what the server tells, as rows. It decides nothing about jobs, and its clock is the server's.
//
// Texts of jobs come from programs and people: they become text nodes, never markup, with hidden characters spelled out.
// Whatever changes is set in place, so that nothing moves under a pointer, and no focus is lost.

const TICKS = 50;
const ALARMS = new Set(["unattended", "stuck", "late", "failing"]);
const ASK_AGAIN = 3_000; // ms, while the server is away
const POLL = 5_000; // where there is no stream
const QUIET = 60_000; // a stream that says nothing for so long is asked; also how long a refusal of streams counts

const $ = (id) => document.getElementById(id);

// --- texts and elements ------------------------------------------------------------------------------------------

/** The text with every control character, mark of direction and invisible character spelled out. */
function spelled(text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (hidden) => (hidden === "\n" ? " ⏎ " : `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}

/** An element. Attributes that are null are left out; children are nodes and texts; those that are null, too. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {}))
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value != null) element.setAttribute(name, spelled(value));
  element.append(...children.flat().filter((child) => child != null).map((child) => (child instanceof Node ? child : spelled(child))));
  return element;
}

/** A text that somebody else wrote: its direction is its own. */
const told = (text) => h("bdi", null, text);

function put(element, text) {
  const shown = spelled(text);
  if (element.textContent !== shown) element.textContent = shown;
}

function name(element, attribute, value) {
  if (value == null) element.removeAttribute(attribute);
  else if (element.getAttribute(attribute) !== spelled(value)) element.setAttribute(attribute, spelled(value));
}

/** Give the parent these children, and touch only what differs: what stays keeps its focus and its place. */
function arrange(parent, children, after = null) {
  let place = after ? after.nextSibling : parent.firstChild;
  for (const child of children)
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Draw anew only if what is drawn has changed. */
function redraw(element, facts, draw) {
  const seen = JSON.stringify(facts);
  if (element.seen === seen) return;
  element.seen = seen;
  element.replaceChildren(...[draw(facts)].flat().filter((child) => child != null));
}

// --- time --------------------------------------------------------------------------------------------------------

const clock = { at: Date.now(), mark: performance.now() };

const now = () => clock.at + performance.now() - clock.mark;

/** Go by what the server says. Its texts have whole seconds, so what agrees with them is left as it is: no step back. */
function setClock(text) {
  const said = Date.parse(text);
  if (Number.isNaN(said) || (now() >= said && now() < said + 1_500)) return;
  clock.at = said;
  clock.mark = performance.now();
}

/** "1 min 12 s": two units at most. */
function span(ms) {
  const seconds = Math.floor(ms / 1_000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (seconds < 60) return `${Math.max(seconds, 0)} s`;
  if (hours === 0) return `${minutes} min ${seconds % 60} s`;
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** How long something took, to the precision that matters. */
function took(ms) {
  if (ms == null) return "";
  if (ms < 1_000) return `${ms} ms`;
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : span(ms);
}

/** "3 min ago": one unit, because the second is noise. */
function ago(text) {
  const ms = now() - Date.parse(text);
  if (ms < 60_000) return "just now";
  const [many, unit] = ms < 3_600_000 ? [60_000, "min"] : ms < 172_800_000 ? [3_600_000, "h"] : [86_400_000, "d"];
  return `${Math.floor(ms / many)} ${unit} ago`;
}

const format = (options) => new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...options });
const TIME = format({ hour: "2-digit", minute: "2-digit" });
const SECOND = format({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const WEEKDAY = format({ weekday: "short" });
const DAY = format({ day: "numeric", month: "short" });
const YEAR = format({ day: "numeric", month: "short", year: "numeric" });

/** An instant in the reader's zone: as short as it can be without a doubt. */
function local(text, exact = false) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return String(text);
  const time = (exact || at.getSeconds() ? SECOND : TIME).format(at);
  const today = new Date(now());
  const distance = Math.abs(at - today);
  if (YEAR.format(at) === YEAR.format(today)) return time;
  if (distance < 6 * 86_400_000) return `${WEEKDAY.format(at)} ${time}`;
  return `${(distance < 300 * 86_400_000 ? DAY : YEAR).format(at)} ${time}`;
}

const utc = (text) => `${text.replace("T", " ").replace("Z", "")} UTC`;

function time(text, exact = false) {
  return text == null ? null : h("time", { datetime: text, title: utc(text) }, local(text, exact));
}

// --- what the facts are called -------------------------------------------------------------------------------------

const SHAPES = {
  succeeded: "ran",
  failed: "bad",
  lost: "lost",
  abandoned: "lost",
  interrupted: "cut",
  cancelled: "cut",
  skipped: "hole",
  missed: "hole",
  running: "going",
};
const LEGEND = [
  ["succeeded", "succeeded"],
  ["failed", "failed"],
  ["lost", "lost, or abandoned: nobody saw its end"],
  ["interrupted", "interrupted, or cancelled"],
  ["missed", "did not run"],
  ["running", "running"],
];
// What can be begun again, as `firecron run --resume`.
const RESUMABLE = new Set(["failed", "lost", "abandoned", "interrupted", "cancelled"]);

const shapeOf = (outcome) => SHAPES[outcome] ?? (outcome == null ? "hole" : "cut");

const owner = (of) => [of?.instanceId, of?.instance].filter(Boolean).join("/");

const zone = (timezone) => timezone?.replace(/^.*\//, "").replaceAll("_", " ");

const schedule = (row) => [row.words ?? row.line, zone(row.timezone)].filter(Boolean).join(", ");

const needsHand = (row) => ALARMS.has(row.verdict);

const isHeld = (lock) => lock?.state === "held";

const jobs = (count) => `${count.toLocaleString("en")} ${count === 1 ? "job" : "jobs"}`;

/** What happens now, on two lines: [first, second, whether the first asks for a hand]. */
function nowOf(row) {
  const { lock, why } = row;
  const since = (text) => (text == null ? "" : span(now() - Date.parse(text)));
  const by = owner(lock) && `on ${owner(lock)}`;
  switch (row.verdict) {
    case "running":
      return [`running ${since(lock?.since ?? row.since)}`, by || why];
    case "paused": {
      const until = lock?.pausedUntil ? ` until ${local(lock.pausedUntil)}` : "";
      const whose = [lock?.pausedBy && `by ${lock.pausedBy}`, lock?.pausedWhy].filter(Boolean).join(": ");
      const still = isHeld(lock) ? `, still running ${by}` : "";
      return [row.disabled && !lock?.paused ? "disabled" : `paused${until}${still}`, whose || why, row.warning];
    }
    case "late":
      return [`late ${since(row.due ?? row.since)}`, why, true];
    case "stuck":
      return [`stuck ${since(lock?.since ?? row.since)}`, [why, by].filter(Boolean).join(", "), true];
    case "failing":
      return [`failing ${row.since ? `for ${since(row.since)}` : ""}`, row.last?.error ?? why, true];
    case "unattended":
      return [`unattended ${row.since ? `for ${since(row.since)}` : ""}`, why, true];
    case "retired":
      return ["retired", why];
    case "unknown":
      return ["not known", why, true];
    default:
      return ["", row.last?.note ?? "", row.warning];
  }
}

// --- pictures: a unit is a pixel of the strip ------------------------------------------------------------------------

const PITCH = 5;
const WIDTH = 4;

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Add a tick to the paths: at x, on the line y, with a bar of this height. */
function drawTick(paths, outcome, x, y, height) {
  const bar = (left, bottom, high, width = WIDTH) => `M${left} ${bottom}h${width}v${-high}h${-width}z`;
  const add = (kind, path) => (paths[kind] = (paths[kind] ?? "") + path);
  const kind = shapeOf(outcome);
  const hollow = bar(x + 0.5, y - 0.5, Math.max(height - 1, 3), WIDTH - 1);
  if (kind === "hole") add(kind, `M${x + 0.4} ${y - 3}a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0`);
  else if (kind === "cut") {
    const low = Math.round(Math.max(height, 7) * 0.4);
    add(kind, bar(x, y, low) + bar(x, y - low - 2, Math.max(height, 7) - low - 2));
  } else if (kind === "lost" || kind === "going") add(kind, hollow);
  else add(kind, bar(x, y, height));
  if (kind === "bad" || kind === "lost") add("bad", `M${x - 0.5} ${y + 6}h5l-2.5 -4.5z`);
}

const drawn = (paths) => Object.entries(paths).map(([kind, d]) => svg("path", { class: kind, d }));

/** The picture of one outcome, as beside a run and in the legend. */
function glyph(outcome) {
  const paths = {};
  drawTick(paths, outcome, 1, 11, 10);
  return svg("svg", { class: "glyph", viewBox: "0 0 7 18", "aria-hidden": "true" }, ...drawn(paths));
}

const MARKS = {
  ok: ["ran", "M4.2 10a2.3 2.3 0 1 0 4.6 0a2.3 2.3 0 1 0 -4.6 0"],
  running: ["going", "M2.5 10a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"],
  paused: ["ink", "M2.5 6h2.8v8h-2.8zM7.7 6h2.8v8h-2.8z"],
  late: ["ring", "M1.5 10a5 5 0 1 0 10 0a5 5 0 1 0 -10 0M6.5 6.8v3.4l2.4 1.5"],
  failing: ["bad", "M0.8 15h11.4l-5.7 -10.4z"],
  stuck: ["bad", "M1.8 5.3h9.4v9.4h-9.4z"],
  unattended: ["ring", "M6.5 4.2l5.6 5.8l-5.6 5.8l-5.6 -5.8z"],
  retired: ["ink", "M3 9.4h7v1.2h-7z"],
  unknown: ["ring", "M3.6 8a2.9 2.9 0 1 1 4.4 2.5q-1.5 .9 -1.5 2.3M6.5 14.6v1.4"],
};

function setMark(element, verdict) {
  const [kind, d] = MARKS[verdict] ?? MARKS.unknown;
  const path = element.firstChild;
  if (path.getAttribute("d") === d) return;
  path.setAttribute("class", kind);
  path.setAttribute("d", d);
}

const mark = () => svg("svg", { class: "mark", viewBox: "0 0 13 20", "aria-hidden": "true" }, svg("path", { d: "" }));

/** A strip of the last ticks, the newest at the right end. */
class Strip {
  constructor(height) {
    this.height = height;
    this.ticks = [];
    this.element = svg("svg", { class: "strip", role: "img", viewBox: `0 0 ${TICKS * PITCH - 1} ${height}` });
    this.element.strip = this;
    this.show([], null);
  }

  show(ticks, running) {
    const going = running && !ticks.some((tick) => tick.slot === running.slot) ? [{ ...running, outcome: "running" }] : [];
    const shown = [...ticks, ...going].slice(-TICKS);
    const seen = JSON.stringify(shown);
    if (this.seen === seen) return;
    this.seen = seen;
    this.ticks = shown;
    const line = this.height - 7;
    const longest = Math.max(1, ...shown.map((tick) => tick.durationMs ?? 0));
    const paths = { floor: `M0 ${line + 0.5}h${TICKS * PITCH - 1}` };
    shown.forEach((tick, index) => {
      const height = 3 + Math.round((line - 4) * Math.sqrt((tick.durationMs ?? 0) / longest));
      drawTick(paths, tick.outcome, (TICKS - shown.length + index) * PITCH, line, height);
    });
    this.element.replaceChildren(...drawn(paths));
    this.element.setAttribute("aria-label", this.summary());
  }

  summary() {
    const counts = new Map();
    for (const tick of this.ticks) {
      const word = shapeOf(tick.outcome) === "hole" ? "did not run" : tick.outcome;
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    if (counts.size === 0) return "No tick yet";
    return `Last ${this.ticks.length} ticks: ${[...counts].map(([word, count]) => `${count} ${word}`).join(", ")}`;
  }

  /** Tell of the tick at this place, beside it; of none if there is none. */
  tell(index) {
    const tick = this.ticks[index - (TICKS - this.ticks.length)];
    const tip = $("tip");
    tip.hidden = !tick;
    if (!tick) return;
    const outcome = tick.outcome ?? "did not run";
    const length = tick.durationMs == null ? "" : ` in ${took(tick.durationMs)}`;
    tip.replaceChildren(
      h("span", null, `${local(tick.slot)} · ${outcome}${length}`),
      ...(tick.why ? [h("span", null, told(tick.why))] : []),
    );
    const box = this.element.getBoundingClientRect();
    const x = box.left + ((index + 0.4) * box.width) / TICKS - tip.offsetWidth / 2;
    const above = box.top - tip.offsetHeight - 4;
    tip.style.left = `${Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${above < 4 ? box.bottom + 4 : above}px`;
  }
}

const runningOf = (row) =>
  isHeld(row.lock) && row.lock.unfinished
    ? { slot: row.lock.unfinished, durationMs: Math.max(0, now() - Date.parse(row.lock.since)) || 0 }
    : null;

document.addEventListener("pointermove", (event) => {
  const strip = event.target.closest?.(".strip")?.strip;
  if (!strip) return void ($("tip").hidden = true);
  const box = strip.element.getBoundingClientRect();
  strip.tell(Math.floor(((event.clientX - box.left) / box.width) * TICKS));
});

// --- what is known -----------------------------------------------------------------------------------------------------

const known = {
  isLoaded: false,
  jobs: new Map(),
  leaders: [],
  locks: [],
  visitor: { who: null, canAct: false },
  readOnly: true,
  database: "",
  // Why what is shown may be old; null if it is not.
  trouble: null,
  heard: null,
};

const mayAct = () => known.visitor.canAct && !known.readOnly;

/** Take what was told: everything, or only what has changed. */
function learn(facts, isEverything) {
  setClock(facts.now);
  known.heard = facts.now;
  known.isLoaded = true;
  for (const field of ["leaders", "locks", "visitor", "readOnly", "database"])
    if (facts[field] !== undefined) known[field] = facts[field];
  const there = new Set(facts.jobs.map((row) => row.job));
  for (const gone of isEverything ? [...known.jobs.keys()].filter((job) => !there.has(job)) : (facts.gone ?? []))
    known.jobs.delete(gone);
  for (const row of facts.jobs) known.jobs.set(row.job, row);
  setTrouble(null);
  show();
}

function setTrouble(trouble) {
  known.trouble = trouble;
  showState();
}

// --- the overview ----------------------------------------------------------------------------------------------------------

/** One job on two lines. */
class Row {
  constructor(row) {
    this.mark = mark();
    this.word = h("span", { class: "unseen" });
    this.link = h("a", { href: `#job/${encodeURIComponent(row.job)}`, class: "name" }, told(row.job));
    this.schedule = h("span", { class: "sub" });
    this.next = h("time", { class: "first" });
    this.countdown = h("span", { class: "sub" });
    this.now = h("span", { class: "first" });
    this.why = h("bdi", { class: "sub" });
    this.strip = new Strip(36);
    this.last = h("span", { class: "first" });
    this.ago = h("span");
    this.took = h("span", { class: "sub" });
    this.nowCell = h("div", { role: "cell", class: "now" }, this.now, this.why);
    this.element = h(
      "div",
      { role: "row" },
      h("div", { role: "cell" }, this.mark, this.word),
      h("div", { role: "cell", class: "job" }, h("span", { class: "first" }, this.link), this.schedule),
      h("div", { role: "cell", class: "next" }, this.next, this.countdown),
      this.nowCell,
      h("div", { role: "cell", class: "picture" }, this.strip.element),
      h("div", { role: "cell", class: "last" }, this.last, this.took),
    );
    this.element.row = this;
    this.isVisible = false;
    this.stripOf = null;
    this.ticks = [];
    this.update(row);
    inSight.observe(this.element);
  }

  get wantsStrip() {
    return this.isVisible && this.stripOf !== this.strips();
  }

  /** What the strip was made of: if that changes, it is old. */
  strips() {
    return `${this.row.last?.key} ${this.row.last?.outcome} ${this.row.lock?.slot}`;
  }

  update(row) {
    this.row = row;
    const { last } = row;
    this.element.classList.toggle("need", needsHand(row));
    setMark(this.mark, row.verdict);
    put(this.word, row.verdict);
    put(this.schedule, schedule(row));
    name(this.schedule, "title", [row.line, row.timezone].filter(Boolean).join(" · ") || null);
    name(this.next, "datetime", row.next);
    name(this.next, "title", row.next && utc(row.next));
    if (last?.outcome !== this.outcome) {
      this.outcome = last?.outcome;
      const word = this.outcome === "succeeded" ? h("span", { class: "unseen" }, "succeeded ") : `${this.outcome} `;
      this.last.replaceChildren(...(last ? [glyph(this.outcome), word instanceof Node ? word : spelled(word), this.ago] : []));
    }
    const at = last?.ended ?? last?.slot ?? last?.started;
    name(this.last, "title", at ? utc(at) : null);
    this.at = at;
    put(this.took, last?.durationMs == null ? (last?.count > 1 ? `${last.count} ticks` : "") : took(last.durationMs));
    this.strip.show(this.ticks, runningOf(row));
    this.tick();
    want(this);
  }

  setTicks(ticks, of) {
    this.stripOf = of;
    this.ticks = ticks;
    this.strip.show(ticks, runningOf(this.row));
  }

  /** What time alone changes. */
  tick() {
    const { row } = this;
    put(this.next, row.next ? local(row.next) : "");
    put(this.countdown, row.next ? countdown(row.next) : "");
    const [first, second, isHot] = nowOf(row);
    put(this.now, first);
    put(this.why, second ?? "");
    name(this.why, "title", second || null);
    this.now.classList.toggle("hot", Boolean(isHot));
    this.nowCell.classList.toggle("told", Boolean(first || second));
    put(this.ago, this.at ? ago(this.at) : "");
  }

  matches(words) {
    const { row } = this;
    const facts = [row.job, row.verdict, schedule(row), row.line, row.service, row.where, row.role, row.last?.outcome, owner(row.lock)];
    const text = facts.join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  }
}

function countdown(text) {
  const left = Date.parse(text) - now();
  return left < 0 ? "due" : `in ${span(left)}`;
}

const rows = new Map();
const inSight = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      target.row.isVisible = isIntersecting;
      if (isIntersecting) {
        target.row.tick();
        want(target.row);
      }
    }
  },
  { rootMargin: "200px" },
);

// Strips are asked for together: those of the rows that came in sight within a moment.
const wanted = new Set();
let asking = 0;

function want(row) {
  if (!row.wantsStrip) return;
  wanted.add(row);
  asking ||= setTimeout(askStrips, 60);
}

async function askStrips() {
  const asked = [...wanted].filter((row) => row.wantsStrip && row.element.isConnected).slice(0, 40);
  for (const row of asked) wanted.delete(row);
  if (asked.length) {
    const of = asked.map((row) => row.strips());
    try {
      const { strips } = await get(`api/strips?names=${asked.map((row) => encodeURIComponent(row.row.job)).join(",")}`);
      asked.forEach((row, index) => row.setTicks(strips[row.row.job] ?? [], of[index]));
    } catch {
      // They are asked for again when their rows change or come in sight; the connection's trouble is told elsewhere.
    }
  } else wanted.clear();
  asking = wanted.size ? setTimeout(askStrips, 0) : 0;
}

let touched = -Infinity;
for (const kind of ["pointermove", "pointerdown", "keydown"])
  $("v-jobs").addEventListener(kind, (event) => event.target.closest(".jobs") && (touched = performance.now()), { passive: true });

const rank = (row) => (needsHand(row) ? 0 : row.verdict === "unknown" ? 1 : row.warning ? 2 : 3);

/** Put the rows in their order, with those in need on top. Not while somebody points at them or walks in them. */
function settle() {
  const order = [...rows.values()].sort(
    (a, b) => rank(a.row) - rank(b.row) || (a.row.job < b.row.job ? -1 : a.row.job > b.row.job ? 1 : 0),
  );
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of order) row.element.hidden = !row.matches(words);
  const isRetired = (row) => row.row.verdict === "retired";
  const active = order.filter((row) => !isRetired(row));
  const retired = order.filter(isRetired);
  const isStill = performance.now() - touched > 4_000;
  const elements = active.map((row) => row.element);
  const isOther = elements.length !== $("list").childElementCount - 1 || elements.some((element) => element.parentNode !== $("list"));
  if (isStill || isOther) arrange($("list"), elements, $("list").firstElementChild);
  arrange($("retired"), retired.map((row) => row.element));
  const isFound = (row) => !row.element.hidden;
  $("list").hidden = !active.some(isFound);
  $("apart").hidden = !retired.some(isFound);
  document.querySelector(".legend").hidden = $("list").hidden;
  const isNothing = known.isLoaded && !order.some(isFound);
  $("nothing").hidden = !isNothing;
  if (isNothing)
    put(
      $("nothing"),
      rows.size
        ? `No job matches “${$("filter").value}”.`
        : "A job appears here when the first instance that has it starts, or when its trigger is called for the first time.",
    );
}

function showJobs() {
  for (const [job, row] of rows)
    if (!known.jobs.has(job)) {
      inSight.unobserve(row.element);
      row.element.remove();
      rows.delete(job);
    }
  for (const [job, facts] of known.jobs) {
    const row = rows.get(job);
    if (!row) rows.set(job, new Row(facts));
    else if (row.row !== facts) row.update(facts);
  }
  settle();
  showSentence();
}

/** The first thing to read. */
function sentence(all) {
  const need = all.filter(needsHand).length;
  const warned = all.filter((row) => !needsHand(row) && (row.warning || row.verdict === "unknown")).length;
  if (all.length === 0) return "No jobs yet";
  if (need) return `${need === all.length && need > 1 ? `All ${jobs(need)} need` : `${need} of ${jobs(all.length)} ${need === 1 ? "needs" : "need"}`} a hand`;
  const fine = all.length === 1 ? "1 job, as it should be" : `${jobs(all.length)}, all as they should be`;
  return warned ? `${fine}; ${warned === all.length && warned > 1 ? "all" : warned} worth a look` : fine;
}

function showSentence() {
  if (!known.isLoaded) return;
  const all = [...known.jobs.values()].filter((row) => row.verdict !== "retired");
  const said = sentence(all);
  put($("sentence"), said);
  const need = all.filter(needsHand).length;
  if (view.kind === "jobs") document.title = need ? `${need} need a hand · firecron` : `firecron ${known.database}`.trim();
}

/** The line below the sentence: who runs and who is next; or, what is wrong with the connection. */
function showDetail() {
  const { trouble } = known;
  if (trouble) return put($("detail"), known.heard ? `${trouble} What you see is of ${local(known.heard, true)}.` : trouble);
  if (!known.isLoaded) return;
  const all = [...known.jobs.values()].filter((row) => row.verdict !== "retired");
  const count = (test) => all.filter(test).length;
  const running = count((row) => isHeld(row.lock));
  const paused = count((row) => row.verdict === "paused");
  const states = [running && `${running} running`, paused && `${paused} paused`].filter(Boolean);
  let next = null;
  for (const row of all)
    if (row.next && row.verdict !== "paused" && Date.parse(row.next) >= now() && (!next || row.next < next.next)) next = row;
  const coming = next && `Next: ${next.job} ${countdown(next.next)}.`;
  put($("detail"), [states.length && `${states.join(", ")}.`, coming].filter(Boolean).join(" "));
}

function showState() {
  const { trouble } = known;
  document.body.classList.toggle("away", Boolean(trouble));
  document.body.classList.toggle("live", !trouble && known.isLoaded);
  put($("live"), trouble ? "away" : known.isLoaded ? (live.isPolling ? `asks every ${POLL / 1000} s` : "live") : "connecting");
  if (!known.isLoaded && trouble) put($("sentence"), "Nothing is known yet");
  showDetail();
}

$("v-jobs").addEventListener("click", (event) => {
  const row = event.target.closest("[role=row]")?.row;
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (row && isPlain && !event.target.closest("a, svg.strip") && getSelection().isCollapsed) location.hash = row.link.hash;
});

$("v-jobs").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const isInput = event.target === $("filter");
  if (!step || !(isInput || event.target.classList.contains("name"))) return;
  const links = [...$("v-jobs").querySelectorAll("[role=row]:not([hidden]) .name")];
  const next = links[links.indexOf(event.target) + step] ?? (step < 0 ? $("filter") : null);
  if (!next || (isInput && step < 0)) return;
  event.preventDefault();
  next.focus();
});

$("filter").addEventListener("input", () => {
  history.replaceState(null, "", $("filter").value ? `#?${encodeURIComponent($("filter").value)}` : "#");
  touched = -Infinity;
  settle();
});

$("filter").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && $("filter").value) {
    event.preventDefault();
    $("filter").value = "";
    $("filter").dispatchEvent(new Event("input"));
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") $("tip").hidden = true;
  const isTyping = event.target.closest?.("input, textarea, dialog");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (view.kind !== "jobs") location.hash = "";
  else $("filter").focus();
});

// --- tables of the other views -----------------------------------------------------------------------------------------------

const cell = (attributes, ...children) => h("div", { role: "cell", ...attributes }, ...children);

const labels = (...texts) =>
  h("div", { role: "row", class: "labels" }, ...texts.map((text) => h("span", { role: "columnheader" }, text)));

/** Show items as the children of a table, below its labels. What has not changed is left alone, and focus stays. */
function list(table, items, keyOf, make) {
  const old = (table.made ??= new Map());
  const made = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const facts = JSON.stringify([item, mayAct()]);
    const before = old.get(key);
    made.set(key, before?.facts === facts ? before : { facts, element: make(item) });
  }
  const act = document.activeElement?.dataset.act;
  const holder = [...old].find(([, { element }]) => element.contains(document.activeElement))?.[0];
  table.made = made;
  arrange(table, [...made.values()].map(({ element }) => element), table.querySelector(".labels"));
  if (holder !== undefined && !table.contains(document.activeElement))
    made.get(holder)?.element.querySelector(act ? `[data-act="${act}"]` : "button, a")?.focus();
}

const table = (kind, label, ...columns) =>
  h("div", { role: "table", class: `rows plain ${kind}`, "aria-label": label }, labels(...columns));

/** A heading, and a table that is drawn once; or one sentence where it is empty. */
class Part {
  constructor(title, empty, kind, ...columns) {
    this.table = table(kind, title, ...columns);
    this.empty = h("p", { class: "sub" }, empty);
    this.elements = [h("h2", null, title), this.table, this.empty];
  }

  show(items, keyOf, make) {
    this.table.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    list(this.table, items, keyOf, make);
  }
}

const labelled = (label, ...children) => cell({ "data-label": label }, ...children);

const parts = {
  instances: new Part("Instances", "No instance is known.", "instances", "Instance", "Started", "Seen", "Jobs", "Runs now"),
  groups: new Part("Groups", "No group of instances is known.", "groups", "Service", "First seen", "Seen", "Jobs"),
  leaders: new Part("Leaders", "No name is led.", "locks", "Name", "State", "By", "Since", "Actions"),
  locks: new Part("Locks of programs", "No other lock is known.", "locks", "Name", "State", "By", "Since", "Actions"),
  acts: new Part("Acts", "Nobody has paused, unlocked, cancelled or run anything yet.", "acts", "When", "Act", "Name", "Who", "Why"),
};

const jobLink = (job) => h("a", { class: "link", href: `#job/${encodeURIComponent(job)}` }, told(job));

async function showInstances() {
  const { instances, groups } = await get("api/instances");
  parts.instances.show(instances, (one) => `${one.instanceId}/${one.instance}`, (one) =>
    h(
      "div",
      { role: "row" },
      cell(null, h("span", { class: "mono" }, told(owner(one))), one.alive ? null : h("span", { class: "hot" }, " gone")),
      labelled("Started", time(one.startedAt)),
      labelled("Seen", time(one.seenAt, true)),
      labelled("Jobs", Array.isArray(one.jobs) ? String(one.jobs.length) : String(one.jobs ?? "")),
      labelled("Runs now", one.running.length ? one.running.map((job) => h("div", null, jobLink(job))) : "nothing"),
    ),
  );
  parts.groups.show(groups, (group) => group.group, (group) =>
    h(
      "div",
      { role: "row" },
      cell(null, told(group.service), group.live ? null : h("span", { class: "hot" }, " gone"), h("span", { class: "sub mono" }, told(group.group))),
      labelled("First seen", time(group.firstSeenAt)),
      labelled("Seen", time(group.seenAt, true)),
      labelled("", Array.isArray(group.jobs) ? many(group.jobs) : String(group.jobs ?? "")),
    ),
  );
}

const many = (names) =>
  h("details", null, h("summary", null, jobs(names.length)), h("ul", null, ...names.map((job) => h("li", null, jobLink(job)))));

function showLocks() {
  const make = (lock) => {
    const isLeader = lock.kind === "leader";
    const word = isLeader && isHeld(lock) ? "leads" : lock.state.replace("_", " ");
    return h(
      "div",
      { role: "row" },
      cell(null, h("strong", null, told(lock.name)), lock.problem ? h("div", { class: "error" }, told(lock.problem)) : null),
      labelled("", lock.paused ? `paused, ${word}` : word, lock.outcome && !isHeld(lock) ? h("span", { class: "sub" }, `last ${lock.outcome}`) : null),
      labelled("", h("span", { class: "mono" }, told(owner(lock)))),
      labelled("", isHeld(lock) ? time(lock.since) : null),
      cell(null, buttons(lock.name, actsOn(lock))),
    );
  };
  parts.leaders.show(known.leaders, (lock) => lock.name, make);
  parts.locks.show(known.locks, (lock) => lock.name, make);
}

async function showActs() {
  const { acts } = await get("api/acts");
  parts.acts.show(acts, (act) => JSON.stringify(act), (act) =>
    h(
      "div",
      { role: "row" },
      cell(null, time(act.at)),
      cell(null, act.act),
      cell(null, known.jobs.has(act.name) ? jobLink(act.name) : told(act.name ?? "")),
      labelled("by", told(act.who ?? "somebody")),
      cell(null, act.why ? told(act.why) : null),
    ),
  );
}

// --- a job ---------------------------------------------------------------------------------------------------------------------

const TRIGGERS = { schedule: "by its schedule", catch_up: "caught up", rerun: "begun again", manual: "by hand", http: "by a trigger" };

class JobView {
  constructor(job) {
    this.job = job;
    this.mark = mark();
    this.schedule = h("p", { class: "sub" });
    this.now = h("span");
    this.why = h("p", { class: "said" });
    this.actions = h("div", { class: "actions", role: "group", "aria-label": "Actions" });
    this.notRunnable = h("p", { class: "sub" });
    this.strip = new Strip(48);
    name(this.strip.element, "tabindex", "0");
    this.strip.element.addEventListener("keydown", (event) => this.walk(event));
    this.strip.element.addEventListener("blur", () => ($("tip").hidden = true));
    this.first = h("span");
    this.final = h("span");
    this.runs = h("div", { role: "table", class: "rows runs", "aria-label": "Runs" }, labels("Outcome", "Tick", "Lag", "Took", "By", "Actions"));
    this.noRuns = h("p", { class: "sub" }, "No run is in the history.");
    this.words = h("div");
    this.raw = h("pre", { class: "mono" });
    this.next = h("ol", { class: "ticks" });
    this.options = h("dl");
    this.problem = h("p", { class: "sub", role: "status" });
    $("v-job").replaceChildren(
      h("a", { class: "back", href: overviewHash() }, "← Overview"),
      h(
        "div",
        { class: "head" },
        h(
          "div",
          null,
          h("h1", { id: "job-name", tabindex: "-1" }, told(job)),
          this.schedule,
          h("p", { class: "verdict" }, this.mark, this.now),
          this.why,
          this.problem,
        ),
        h("div", null, this.actions, this.notRunnable),
      ),
      h("div", { class: "big" }, this.strip.element, h("p", { class: "span" }, this.first, this.final)),
      h(
        "div",
        { class: "columns" },
        h(
          "div",
          null,
          h("section", null, h("h2", null, "Runs"), this.runs, this.noRuns),
          h("section", null, h("h2", null, "Node"), this.words, h("details", null, h("summary", null, "as it is stored"), this.raw)),
        ),
        h(
          "div",
          null,
          h("section", null, h("h2", null, "Next ticks"), this.next),
          h("section", null, h("h2", null, "Options"), this.options),
        ),
      ),
    );
    this.show();
  }

  /** What the overview knows. */
  show() {
    const row = known.jobs.get(this.job);
    if (!row) {
      put(this.problem, known.isLoaded ? "No job of this name is known." : "");
      return;
    }
    this.row = row;
    put(this.problem, "");
    setMark(this.mark, row.verdict);
    put(this.schedule, `${schedule(row)}${row.line && row.line !== row.words ? `, ${row.line}` : ""}`);
    this.tick();
    this.showActions();
    this.strip.show(this.ticks ?? [], runningOf(row));
    redraw(this.words, row.lock, (lock) => inWords(lock).map((line) => h("p", null, told(line))));
  }

  showActions() {
    const job = this.detail?.runnable ? ["run"] : [];
    redraw(this.actions, mayAct() ? [...job, ...actsOn(this.row.lock)] : [], (acts) => buttons(this.job, acts));
    put(this.notRunnable, mayAct() && this.detail && !this.detail.runnable ? `It can't be run from here: ${this.detail.why_not_runnable}.` : "");
  }

  tick() {
    if (!this.row) return;
    const [first, second, isHot] = nowOf(this.row);
    const word = first || (this.row.next ? `${this.row.verdict}, next ${countdown(this.row.next)}` : this.row.verdict);
    put(this.now, word);
    this.now.classList.toggle("hot", Boolean(isHot));
    const why = [first ? second : "", this.row.why === second ? "" : this.row.why].filter(Boolean);
    redraw(this.why, why, (lines) => lines.map((line) => h("span", { class: "first" }, told(line))));
  }

  /** What the job's own address tells. */
  async load() {
    const path = `api/jobs/${encodeURIComponent(this.job)}`;
    const [detail, strip] = await Promise.all([get(path), get(`${path}/strip`)]);
    setClock(detail.now);
    this.detail = detail;
    this.ticks = strip.ticks;
    if (!known.jobs.has(this.job)) known.jobs.set(this.job, detail.job);
    const [first, final] = [strip.ticks[0], strip.ticks.at(-1)];
    put(this.first, first ? local(first.slot) : "");
    put(this.final, final ? local(final.slot) : "");
    this.show();
    this.noRuns.hidden = detail.runs.length > 0;
    this.runs.hidden = detail.runs.length === 0;
    list(this.runs, detail.runs, (run) => run.key, (run) => this.run(run));
    redraw(this.next, detail.next, (ticks) =>
      ticks.length
        ? ticks.map(({ slot, note }) => h("li", null, time(slot), h("span", { class: "sub" }, countdown(slot)), note ? h("span", { class: "sub" }, told(note)) : null))
        : [h("li", { class: "sub" }, "There is none.")],
    );
    redraw(this.options, detail.options, optionList);
    put(this.raw, "");
    this.raw.textContent = JSON.stringify(detail.node, null, 2).split("\n").map(spelled).join("\n");
  }

  run(run) {
    const lag = run.started && run.slot ? Date.parse(run.started) - Date.parse(run.slot) : null;
    const count = run.count > 1 || run.atLeast ? ` ×${run.count}${run.atLeast ? " or more" : ""}` : "";
    const begun = [TRIGGERS[run.trigger] ?? run.trigger, run.attempt > 1 && `attempt ${run.attempt}`].filter(Boolean).join(", ");
    const whose = owner(run) ? h("span", { class: "mono" }, run.recordedBy ? "recorded by " : null, told(owner(run))) : run.recordedBy ? `noted by the ${run.recordedBy}` : null;
    const isResumable = RESUMABLE.has(run.outcome) && this.detail?.runnable;
    return h(
      "div",
      { role: "row" },
      cell(null, glyph(run.outcome), h("span", { class: shapeOf(run.outcome) === "bad" || shapeOf(run.outcome) === "lost" ? "error" : null }, `${run.outcome}${count}`), h("span", { class: "sub" }, begun)),
      cell(null, time(run.slot ?? run.started, true) ?? told(run.key)),
      cell({ class: "number", "data-label": "lag" }, lag == null ? "" : took(lag)),
      cell({ class: "number", "data-label": "took" }, took(run.durationMs)),
      cell(null, whose, run.note ? h("div", null, told(run.note)) : null),
      cell(
        { class: "end" },
        isResumable ? buttons(this.job, ["again"], run) : null,
        run.logs ? h("a", { class: "link", href: /^https:/.test(run.logs) ? run.logs : null, target: "_blank", rel: "noreferrer" }, "Logs") : null,
      ),
      run.error || run.steps?.length
        ? cell(
            { class: "wide" },
            run.error ? h("div", { class: "error" }, told(run.error)) : null,
            run.steps?.length ? h("details", { class: "steps" }, h("summary", null, `${run.steps.length} ${run.steps.length === 1 ? "step" : "steps"}`), h("ol", null, ...run.steps.map(step))) : null,
          )
        : null,
    );
  }

  /** The arrows tell of one tick after another. */
  walk(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const first = TICKS - this.strip.ticks.length;
    this.place = Math.max(first, Math.min(TICKS - 1, (this.place ?? TICKS) + step));
    this.strip.tell(this.place);
  }
}

function step(one) {
  const length = one.started && one.done ? took(Date.parse(one.done) - Date.parse(one.started)) : "";
  const word = { recorded: "recorded", begun: "begun, and nobody knows its end", malformed: "malformed" }[one.state];
  return h("li", null, told(one.name), h("span", { class: "sub" }, ` ${[word, length && `took ${length}`].filter(Boolean).join(", ")}`));
}

function optionList(options) {
  const seconds = (value) => (value == null ? null : span(value * 1_000));
  const yes = (value) => (value == null ? null : value ? "yes" : "no");
  const facts = [
    ["Cron line", options.line],
    ["Time zone", options.timezone],
    ["Every", seconds(options.every)],
    ["Starting", time(options.starting)],
    ["Grace", seconds(options.grace)],
    ["Overlap", options.overlap],
    ["Catch up", options.catchUp],
    ["Once per tick", yes(options.oncePerTick)],
    ["Expected runtime", seconds(options.expectedRuntime)],
    ["Alert after", options.alertAfter == null ? null : `${options.alertAfter} ${options.alertAfter === 1 ? "failure" : "failures"}`],
    ["Disabled", options.disabled ? "yes" : null],
    ["Ticks", options.ticks === false ? "no: only a trigger runs it" : null],
    ["Role", options.role],
    ["Function", options.where],
    ["Service", options.service],
    ["Revision", options.revision],
    ["Schedule since", time(options.since)],
    ["Declared", time(options.declaredAt)],
  ];
  return facts.flatMap(([label, value]) => (value ? [h("dt", null, label), h("dd", null, value instanceof Node ? value : told(value))] : []));
}

/** What a lock's node says, in sentences. */
function inWords(lock) {
  if (!lock || lock.state === "absent") return ["There is no node: no instance has claimed a tick of it yet."];
  const by = owner(lock) || "an instance without a name";
  const at = (text) => (text ? local(text, true) : "an unknown time");
  const states = {
    held: `Held by ${by} since ${at(lock.since)}. The lease ends at ${at(lock.until)} if it is not renewed.`,
    minimum_hold: `Released by ${by}, and kept until ${at(lock.until)}, as the job asks.`,
    free: lock.released ? `Free. ${by} released it at ${at(lock.released)}.` : "Free.",
    died: `${by} acquired it at ${at(lock.since)} and never released it. The lease ended at ${at(lock.until)}, so it is free.`,
    unlocked: `An operator has unlocked it. ${by} may still run, and notices at its next renewal.`,
    malformed: "Nobody can claim it, because the node is malformed.",
  };
  const attempt = lock.attempt > 1 ? `, attempt ${lock.attempt}` : "";
  return [
    states[lock.state],
    lock.slot && `The newest tick that was claimed is ${at(lock.slot)}${attempt}${lock.outcome ? `: ${lock.outcome}` : ""}.`,
    lock.unfinished && !isHeld(lock) && `The end of the tick ${at(lock.unfinished)} was not seen.`,
    lock.paused && `Paused${lock.pausedBy ? ` by ${lock.pausedBy}` : ""}${lock.pausedAt ? ` at ${local(lock.pausedAt)}` : ""}${lock.pausedUntil ? `, until ${local(lock.pausedUntil)}` : ""}${lock.pausedWhy ? `: ${lock.pausedWhy}` : ""}.`,
    lock.cancelled && `Its holder was asked to stop${lock.cancelWhy ? `: ${lock.cancelWhy}` : ""}.`,
    lock.fence != null && `Fence ${lock.fence}.`,
    lock.problem && `${lock.problem}${lock.remedy ? ` (${lock.remedy})` : ""}.`,
  ].filter(Boolean);
}

// --- acting ----------------------------------------------------------------------------------------------------------------------

const WHY = { id: "why", label: "Why", hint: "for the others, in a few words" };
const UNTIL = { id: "until", label: "Until (your time; empty: until somebody resumes it)", type: "datetime-local" };

// Each act: its button, and what its dialog says of the lock it acts on.
const ACTS = {
  run: {
    label: "Run now",
    effect: (lock) => `“${lock.name}” runs once, now, in the process that serves this page, under its lock. Its ticks come as planned.`,
    send: (name) => [`${name}/run`, { resume: null }],
    takesLong: true,
  },
  again: {
    label: "Resume",
    title: (lock, run) => `Resume ${run.slot ? local(run.slot, true) : run.key}`,
    effect: (lock, run) => `“${lock.name}” runs this tick again, as its next attempt. Steps that were recorded are not done again.`,
    send: (name, lock, fields, run) => [`${name}/run`, { resume: run.key }],
    takesLong: true,
  },
  pause: {
    label: "Pause…",
    effect: (lock) => `No instance starts “${lock.name}” any more. ${isHeld(lock) ? "The run that is under way goes on. " : ""}Ticks that pass meanwhile do not run.`,
    fields: [WHY, UNTIL],
    send: (name, lock, { why, until }) => [`${name}/pause`, { why: why || null, until: until ? `${new Date(until).toISOString().slice(0, 19)}Z` : null }],
  },
  resume: {
    label: "Resume",
    effect: (lock) => `All instances may start “${lock.name}” again, from its next tick on.`,
    send: (name) => [`${name}/resume`, {}],
  },
  cancel: {
    label: "Cancel…",
    effect: (lock) => `The run of “${lock.name}” on ${owner(lock)} is asked to stop. It is not killed: it stops where it looks.`,
    fields: [WHY],
    send: (name, lock, { why }) => [`${name}/cancel`, { why: why || null, fence: lock.fence }],
  },
  down: {
    label: "Step down…",
    effect: (lock) => `${owner(lock)} is asked to stop leading “${lock.name}”. Then another instance is elected, or the same one.`,
    fields: [WHY],
    send: (name, lock, { why }) => [`${name}/cancel`, { why: why || null, fence: lock.fence }],
  },
  unlock: {
    label: "Unlock…",
    effect: (lock) => `Takes “${lock.name}” from ${owner(lock)}, which has had it since ${lock.since ? local(lock.since, true) : "an unknown time"}. If that run is alive, another one may run beside it until it notices.`,
    send: (name, lock) => [`${name}/unlock`, { acquiredAt: lock.since }],
  },
};

function actsOn(lock) {
  const isTaken = isHeld(lock) || lock?.state === "minimum_hold";
  const stop = lock?.kind === "leader" ? "down" : "cancel";
  return [lock?.paused ? "resume" : "pause", ...(isHeld(lock) && lock.fence != null ? [stop] : []), ...(isTaken ? ["unlock"] : [])];
}

const lockOf = (name) =>
  known.jobs.get(name)?.lock ?? [...known.leaders, ...known.locks].find((lock) => lock.name === name) ?? { name, state: "absent" };

function buttons(name, acts, run = null) {
  if (!mayAct()) return null;
  const each = acts.map((act) =>
    h("button", { type: "button", class: run ? "small" : act === "run" ? "primary" : null, "data-act": act, click: () => ask(act, name, run) }, ACTS[act].label),
  );
  return run ? each : h("div", { class: "actions" }, ...each);
}

let asked = null;

/** Say what will happen, and to what; do it only when it is confirmed. */
function ask(act, name, run) {
  const { label, title, effect, fields = [] } = ACTS[act];
  const lock = { ...lockOf(name), name };
  const word = label.replace("…", "");
  asked = { act, name, lock, run, from: document.activeElement };
  put($("dialog-title"), "");
  $("dialog-title").append(spelled(title?.(lock, run) ?? word), " ", told(run ? `of ${name}` : name));
  $("dialog-effect").replaceChildren(told(effect(lock, run)));
  $("dialog-fields").replaceChildren(
    ...fields.map((field) =>
      h("label", null, field.label, h("input", { id: field.id, type: field.type ?? "text", placeholder: field.hint, maxlength: field.type ? null : 500, autocomplete: "off" })),
    ),
  );
  put($("complaint"), "");
  put($("confirm"), act === "again" ? "Run it again" : word);
  $("confirm").disabled = false;
  $("dialog").showModal();
  ($("dialog-fields").querySelector("input") ?? $("leave")).focus();
}

$("leave").addEventListener("click", () => $("dialog").close());

$("dialog").addEventListener("close", () => {
  const { from, act } = asked;
  const again = from?.isConnected ? from : document.querySelector(`section:not([hidden]) [data-act="${act}"], section:not([hidden]) [data-act]`);
  (again ?? document.querySelector("section:not([hidden]) h1"))?.focus();
});

$("dialog").querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const doing = asked;
  const { act, name, lock, run } = doing;
  const fields = Object.fromEntries([...$("dialog-fields").querySelectorAll("input")].map((input) => [input.id, input.value.trim()]));
  const [path, body] = ACTS[act].send(encodeURIComponent(name), lock, fields, run);
  $("confirm").disabled = true;
  put($("complaint"), "");
  let say = null;
  if (ACTS[act].takesLong) {
    $("dialog").close();
    say = notice(`${name} runs. This says how it ends.`);
  }
  try {
    const said = await post(`api/jobs/${path}`, body);
    if (say) say(said.message ?? `${name}: ${said.result}`);
    else notice(said.message);
    if (!say && asked === doing) $("dialog").close();
    refreshView();
  } catch (error) {
    if (say) say(error.message, true);
    else if (asked === doing && $("dialog").open) {
      put($("complaint"), error.message);
      $("confirm").disabled = false;
    } else notice(error.message);
  }
});

/** Tell something at the window's edge. Returns a function that replaces what is told. */
function notice(text) {
  const words = h("span", null, told(text));
  const close = h("button", { type: "button", click: () => element.remove() }, "Close");
  const element = h("p", null, words, close);
  const leave = () => setTimeout(() => element.remove(), 10_000);
  $("notices").append(element);
  let timer = leave();
  clearTimeout(text.endsWith("ends.") ? timer : 0);
  return (later, stays = false) => {
    clearTimeout(timer);
    words.replaceChildren(told(later));
    if (!element.isConnected) $("notices").append(element);
    if (!stays) timer = leave();
  };
}

// --- asking the server -----------------------------------------------------------------------------------------------------------

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function reply(response) {
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, body?.message ?? `${response.status} ${response.statusText}`);
  return body;
}

const get = async (path) => reply(await fetch(path, { signal: AbortSignal.timeout(20_000) }));

const post = async (path, body) => {
  const request = fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  return reply(await request.catch(() => Promise.reject(new Error("The page's server does not reply, so it is not known whether this was done."))));
};

function described(error) {
  if (error.status === 503) return `The database is away: ${error.message}.`;
  if (error.status === 401 || error.status === 403) return `The server does not show you the jobs (${error.message}). Reload the page to sign in again.`;
  if (error.status) return `The server says: ${error.message}.`;
  return navigator.onLine ? "The page's server does not reply. It is asked again every 3 s." : "This browser is offline.";
}

// --- live --------------------------------------------------------------------------------------------------------------------------

// Of a browser's windows that show this page, one has the stream, by a lock of the browser's, and tells the others.
// A hidden window has no part in it. Where there is no stream, the one asks every few seconds, with an ETag.
const live = { isPolling: false, isLeading: false, stop: null, etag: null, wake: () => {}, end: () => {} };
const HERE = `firecron ${location.pathname}`;
const channel = new BroadcastChannel(HERE);

channel.onmessage = ({ data }) => {
  if (!live.stop) return;
  if (data.facts) learn(data.facts, data.isEverything);
  else setTrouble(data.trouble);
};

function hear(facts, isEverything) {
  learn(facts, isEverything);
  if (live.isLeading) channel.postMessage({ facts, isEverything });
}

function hearTrouble(trouble) {
  setTrouble(trouble);
  if (live.isLeading) channel.postMessage({ trouble });
}

/** Ask for everything. Returns whether the server replied. */
async function refresh() {
  try {
    const headers = live.etag && known.isLoaded ? { "If-None-Match": live.etag } : {};
    const response = await fetch("api/jobs", { headers, signal: AbortSignal.timeout(20_000) });
    if (response.status === 304) {
      if (known.trouble) hearTrouble(null);
      return true;
    }
    const facts = await reply(response);
    live.etag = response.headers.get("ETag");
    hear(facts, true);
    return true;
  } catch (error) {
    hearTrouble(described(error));
    return false;
  }
}

/** Hear the stream until it ends. Returns whether there was one. */
function listen(signal) {
  return new Promise((resolve) => {
    const source = new EventSource("api/events");
    let timer = 0;
    let isFirst = true;
    live.end = () => {
      clearTimeout(timer);
      source.close();
      live.end = () => {};
      resolve(!isFirst);
    };
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(async () => ((await refresh()) ? wait() : live.end()), QUIET);
    };
    source.addEventListener("jobs", (event) => {
      const facts = JSON.parse(event.data);
      live.isPolling = false;
      live.etag = null;
      hear(facts, isFirst);
      isFirst = false;
      wait();
    });
    source.addEventListener("away", (event) => {
      isFirst = false;
      hearTrouble(`The database is away: ${JSON.parse(event.data).message}.`);
    });
    source.onerror = () => live.end();
    signal.addEventListener("abort", () => live.end());
    wait();
  });
}

const pause = (ms) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    live.wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });

async function attend() {
  if (document.hidden || live.stop) return;
  live.stop = new AbortController();
  const { signal } = live.stop;
  live.isLeading = !navigator.locks;
  const lead = () =>
    new Promise((resolve) => {
      live.isLeading = true;
      live.wake();
      signal.addEventListener("abort", resolve);
    });
  navigator.locks?.request(HERE, { signal }, lead).catch(() => {}); // aborted: this window is hidden
  let refusedAt = -Infinity;
  while (!signal.aborted) {
    const isThere = await refresh();
    if (signal.aborted) return;
    const isTime = performance.now() - refusedAt > QUIET;
    if (isThere && live.isLeading && isTime && (await listen(signal))) await pause(300);
    else if (!signal.aborted) {
      if (isThere && live.isLeading && isTime) {
        refusedAt = performance.now();
        live.isPolling = true;
        showState();
      }
      await pause(!isThere ? ASK_AGAIN : live.isLeading ? POLL : QUIET);
    }
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    live.stop?.abort();
    live.stop = null;
    live.wake();
  } else {
    attend();
    refreshView();
  }
});
addEventListener("offline", () => {
  live.end();
  live.wake();
});
addEventListener("online", () => live.wake());

// --- which view ----------------------------------------------------------------------------------------------------------------------

const VIEWS = {
  jobs: { show: showJobs },
  job: { show: () => view.page?.show(), load: () => view.page?.load() },
  instances: { load: showInstances },
  locks: { show: showLocks },
  acts: { load: showActs },
};
const TITLES = { instances: "Instances", locks: "Leaders and locks", acts: "Acts" };
const view = { kind: null, name: null, page: null, scrolled: 0, timer: 0 };

const overviewHash = () => ($("filter").value ? `#?${encodeURIComponent($("filter").value)}` : "#");

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  const hash = location.hash.slice(1);
  const [first, ...rest] = hash.split("/");
  const kind = first === "job" && rest[0] ? "job" : first in TITLES ? first : "jobs";
  const job = kind === "job" ? decoded(rest.join("/")) : null;
  if (kind === view.kind && job === view.name && kind !== "jobs") return;
  const isFirst = view.kind === null;
  const isSame = view.kind === kind && kind === "jobs";
  if (view.kind === "jobs") view.scrolled = scrollY;
  Object.assign(view, { kind, name: job, page: null });
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== `v-${kind}`;
  for (const link of document.querySelectorAll("nav a")) name(link, "aria-current", link.dataset.view === kind ? "page" : null);
  $("tip").hidden = true;
  if (kind === "jobs") {
    $("filter").value = hash.startsWith("?") ? decoded(hash.slice(1)) : "";
    touched = -Infinity;
  } else document.title = `${spelled(job ?? TITLES[kind])} · firecron`;
  if (kind === "job") view.page = new JobView(job);
  show();
  refreshView();
  if (isFirst || isSame) return;
  document.querySelector(`#v-${kind} h1`)?.focus({ preventScroll: true });
  scrollTo(0, kind === "jobs" ? view.scrolled : 0);
}

/** Show what is known, in the view that is open. */
function show() {
  put($("database"), known.database ?? "");
  put($("who"), [known.visitor.who, known.isLoaded && !mayAct() ? "may look, not act" : ""].filter(Boolean).join(", "));
  VIEWS[view.kind].show?.();
  showState();
  if (view.kind === "job" ? view.page.row !== view.page.loaded : VIEWS[view.kind].load) refreshView();
}

/** Ask for what the open view shows besides the rows, once for all that happens within a moment. */
function refreshView() {
  const { load } = VIEWS[view.kind] ?? {};
  if (!load || view.timer || document.hidden) return;
  const { page } = view;
  view.timer = setTimeout(async () => {
    if (page) page.loaded = page.row;
    try {
      await load();
    } catch (error) {
      if (page && error.status === 404) put(page.problem, error.message);
    }
    view.timer = 0;
    if (page !== view.page) refreshView();
  }, 150);
}

setInterval(() => {
  if (document.hidden) return;
  for (const row of rows.values()) if (row.isVisible && view.kind === "jobs") row.tick();
  if (view.kind === "jobs" && known.isLoaded) settle();
  view.page?.tick();
  showDetail();
}, 1_000);
setInterval(() => view.kind === "instances" && refreshView(), 15_000);

for (const [outcome, text] of LEGEND) document.querySelector(".legend").append(h("li", null, glyph(outcome), text));
document.querySelector("#v-instances .body").append(...parts.instances.elements, ...parts.groups.elements);
document.querySelector("#v-locks .body").append(...parts.leaders.elements, ...parts.locks.elements);
document.querySelector("#v-acts .body").append(...parts.acts.elements.slice(1));
history.scrollRestoration = "manual";
addEventListener("hashchange", route);
route();
attend();
