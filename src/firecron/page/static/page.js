// The page: what the server tells, as rows. It decides nothing about jobs, and its clock is the server's. Texts become
// text nodes, never markup. What changes is set in place.

const TICKS = 50;
// Milliseconds: while the server is away; where there is no stream; until a stream that is silent or was refused is
// tried again; for a reply.
const [AGAIN, POLL, QUIET, PATIENCE] = [3_000, 5_000, 60_000, 20_000];

const $ = (id) => document.getElementById(id);
const find = (selector) => [...document.querySelectorAll(selector)];
const on = (target, kinds, handle) => kinds.split(" ").forEach((kind) => target.addEventListener(kind, handle));

// --- texts and elements

/** The text, with control characters, marks of direction and invisible characters spelled out. */
function spelled(text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (hidden) => (hidden === "\n" ? " ⏎ " : `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}

/** An element, as `span.note`. Attributes come first, if any. What is empty or false is left out. */
function h(tag, ...rest) {
  const [name, kind] = tag.split(".");
  const space = /svg|path/.test(name) ? "2000/svg" : "1999/xhtml";
  const element = document.createElementNS(`http://www.w3.org/${space}`, name);
  if (kind) mark(element, "class", kind);
  const attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === "function") on(element, name, value);
    else mark(element, name, value);
  const children = rest.flat(3).filter(Boolean);
  element.append(...children.map((child) => (child instanceof Node ? child : spelled(child))));
  return element;
}

const labels = (...texts) => h("div.labels", { role: "row" }, texts.map((text) => h("span", { role: "columnheader" }, text)));
const row = (...cells) => h("div", { role: "row" }, cells);
const cell = (...rest) => Object.assign(h("div", ...rest), { role: "cell" });

/** A foreign text has a direction of its own. */
const told = (text) => text && h("bdi", text);

function put(element, text) {
  const shown = spelled(text || "");
  if (element.textContent !== shown) element.textContent = shown;
}

function mark(element, attribute, value) {
  if (!value) element.removeAttribute(attribute);
  else if (element.getAttribute(attribute) !== spelled(value)) element.setAttribute(attribute, spelled(value));
}

/** Give the table these rows. What stays keeps its focus and its place. */
function arrange(table, given) {
  const rows = new Set([...table.querySelectorAll(".labels"), ...given]);
  for (const row of [...table.children]) if (!rows.has(row)) row.remove();
  let place = table.firstElementChild;
  for (const row of rows)
    if (row === place) place = place.nextElementSibling;
    else table.insertBefore(row, place);
}

/** Focus the button, or if it is gone, the one of its act, or in its place. */
function focusHeir(buttons, old, place) {
  const heirs = old.isConnected ? [old] : [buttons[place], ...buttons];
  (heirs.find((one) => one?.dataset.act === old.dataset.act) ?? heirs[0] ?? buttons[0])?.focus();
}

/** Change what is in the element, and keep the focus in it. */
function keepFocus(element, change) {
  const [old, all] = [document.activeElement, () => [...element.querySelectorAll("button")]];
  const place = all().indexOf(old);
  change();
  if (place >= 0 && !old.isConnected) focusHeir(all(), old, place);
}

function redraw(element, facts, draw) {
  const seen = JSON.stringify(facts);
  if (element.seen !== seen) keepFocus(element, () => element.replaceChildren(...[draw(facts)].flat().filter(Boolean)));
  element.seen = seen;
}

// --- time

// How far the server's clock is ahead of this window's, which nobody can set.
let ahead = Date.now() - performance.now();

const now = () => performance.now() + ahead;

/** Go by what the server says. Its texts have whole seconds: what agrees with them is left as it is. */
function setClock(text) {
  const off = now() - Date.parse(text);
  if (off < 0 || off > 1_500) ahead -= off;
}

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];

/** "1 min 12 s", or "1 min": as many units as are asked for, and no zeros. */
function span(ms, units = 2) {
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const parts = UNITS.slice(first, first + units).map(([unit, size], index) => {
    const count = Math.floor((index ? ms % UNITS[first][1] : ms) / size);
    return count && `${count} ${unit}`;
  });
  return first < 0 ? "0 s" : joined(parts, " ");
}

function took(ms) {
  if (ms == null) return "";
  if (ms < 1_000) return `${ms} ms`;
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : span(ms);
}

const ago = (text) => `${span(now() - Date.parse(text), 1)} ago`;

/** An instant in the reader's zone, as short as it can be without a doubt. */
function local(text) {
  const at = new Date(text);
  if (!+at) return text ?? "an unknown time";
  const days = Math.abs(at - now()) / 86_400_000;
  const time = at.toTimeString().slice(0, at.getSeconds() ? 8 : 5);
  if (at.toDateString() === new Date(now()).toDateString()) return time;
  const day = days < 6 ? { weekday: "short" } : { day: "numeric", month: "short", year: days < 300 ? undefined : "numeric" };
  return `${at.toLocaleString("en-GB", day)} ${time}`;
}

/** A sentence of the server's, with its instants in the reader's zone. */
const localized = (text) => text?.replace(/\b\d{4}-\d\d-\d\dT[\d:]{8}Z/g, local);

const utc = (text) => text.replace("T", " ").replace("Z", " UTC");

const time = (text) => text && h("time", { datetime: text, title: utc(text) }, local(text));

// --- what the facts are called

const SHAPES = { succeeded: "ran", failed: "bad", lost: "lost", abandoned: "lost", skipped: "hole", missed: "hole", running: "going" };
const LEGEND = { lost: "lost, or abandoned", cancelled: "cancelled, or interrupted", missed: "did not run" };
const RESUMABLE = ["failed", "lost", "abandoned", "interrupted", "cancelled"];

const shapeOf = (outcome) => (outcome == null ? "hole" : (SHAPES[outcome] ?? "cut"));

const owner = (of) => joined([of?.instanceId, of?.instance], "/");

const joined = (texts, between = ", ") => texts.filter(Boolean).join(between);

const schedule = (row) => joined([localized(row.words ?? row.line), !row.every && row.timezone?.replace(/^.*\//, "").replaceAll("_", " ")]);

const needsHand = (row) => ["unattended", "stuck", "late", "failing"].includes(row.verdict);

const isHeld = (lock) => lock?.state === "held";

const counted = (count, word = "job") => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

const warningOf = ({ warning, why }) => warning && localized(warning === true ? why : warning);

/** What happens now: first line, second line, whether somebody should look. */
function nowOf(row) {
  const { lock, verdict } = row;
  const [why, warning] = [localized(row.why), warningOf(row)];
  const by = owner(lock) && `on ${owner(lock)}`;
  const since = (text, units = 1) => (text ? ` ${span(now() - Date.parse(text), units)}` : "");
  const held = lock?.since ?? row.since;
  const also = (text) => joined([row.warning !== true && text, warning], " · ") || why;
  if (verdict === "running") return [`running${since(held, 2)}${lock?.cancelled ? ", asked to stop" : ""}`, also(by), warning];
  if (verdict === "late") return [`late${since(row.due ?? row.since)}`, why, true];
  if (verdict === "stuck") return [`stuck${since(held)}`, why, true];
  if (needsHand(row)) return [joined([verdict, row.since && `for${since(row.since)}`], " "), (verdict === "failing" && row.last?.error) || why, true];
  if (verdict === "unknown") return ["not known", why, true];
  if (verdict === "ok") return warning ? ["worth a look", warning, true] : ["", row.last?.note];
  if (verdict !== "paused") return [verdict, why, warning];
  const until = lock?.pausedUntil ? ` until ${local(lock.pausedUntil)}` : "";
  const whose = joined([lock?.pausedBy && `by ${lock.pausedBy}`, lock?.pausedWhy], ": ");
  return [joined([lock?.paused ? `paused${until}` : "disabled", isHeld(lock) && `still running ${by}`]), also(whose).replace(/^paused /, ""), warning];
}

// --- pictures: a unit is a pixel of the strip

const LENGTH = 5 * TICKS - 1;

/** Add a tick to the paths: at x, on the line y, with a bar of this height. */
function drawTick(paths, outcome, x, y, height) {
  const kind = shapeOf(outcome);
  const add = (kind, path) => (paths[kind] = (paths[kind] ?? "") + path);
  const bar = (y, high) => `M${x} ${y}h4v${-high}h-4z`;
  const half = Math.round(Math.max(height, 7) / 2) - 1;
  if (kind === "hole") add(kind, ring(x + 0.4, y - 3, 1.6));
  else if (kind === "cut") add(kind, bar(y, half) + bar(y - half - 2, half));
  else if (kind === "lost" || kind === "going") add(kind, `M${x + 0.5} ${y - 0.5}h3v${1 - Math.max(height, 4)}h-3z`);
  else add(kind, bar(y, height));
  if (kind === "bad" || kind === "lost") add("bad", `M${x - 0.5} ${y + 6}h5l-2.5 -4.5z`);
}

const drawn = (paths) => Object.entries(paths).map(([kind, d]) => h(`path.${kind}`, { d }));

function glyph(outcome) {
  const paths = {};
  drawTick(paths, outcome, 1, 12, 12);
  return h("svg.glyph", { viewBox: "0 0 6 18", "aria-hidden": "true" }, drawn(paths));
}

const ring = (x, y, r) => `M${x} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

const MARKS = {
  ok: ["dot", ring(4.2, 10, 2.3)],
  running: ["going", ring(2.5, 10, 4)],
  paused: ["ink", "M2.5 6h2.8v8h-2.8zM7.7 6h2.8v8h-2.8z"],
  late: ["ring", `${ring(1.5, 10, 5)}M6.5 6.8v3.4l2.4 1.5`],
  failing: ["bad", "M0.8 15h11.4l-5.7 -10.4z"],
  stuck: ["bad", "M1.8 5.3h9.4v9.4h-9.4z"],
  unattended: ["ring", "M6.5 4.2l5.6 5.8l-5.6 5.8l-5.6 -5.8z"],
  retired: ["ink", "M3 9.4h7v1.2h-7z"],
  unknown: ["ring", "M3.6 8a2.9 2.9 0 1 1 4.4 2.5q-1.5 .9 -1.5 2.3M6.5 14.6v1.4"],
};

function markOf(verdict) {
  const [kind, d] = MARKS[verdict] ?? MARKS.unknown;
  return [h("svg.mark", { viewBox: "0 0 13 20", "aria-hidden": "true" }, h(`path.${kind}`, { d })), h("span.unseen", verdict)];
}

/** A strip of the last ticks, the newest at the right end. */
class Strip {
  constructor(height) {
    this.height = height;
    this.ticks = [];
    this.element = h("svg.strip", { role: "img", viewBox: `0 0 ${LENGTH} ${height}` });
    this.element.strip = this;
  }

  /** `running` is the tick that runs now, by the lock: the ticks may be older. */
  show(ticks, running) {
    const ended = ticks.filter((tick) => tick.outcome !== "running" && tick.slot !== running?.slot);
    this.ticks = [...ended, running].filter(Boolean).slice(-TICKS);
    redraw(this.element, this.ticks, (shown) => {
      const line = this.height - 7;
      const longest = Math.max(1, ...ended.map((tick) => tick.durationMs));
      const paths = { floor: `M0 ${line + 0.5}h${LENGTH}` };
      shown.forEach((tick, index) => {
        const height = 3 + Math.round((line - 4) * Math.sqrt(Math.max(0, Math.min(1, tick.durationMs / longest))));
        drawTick(paths, tick.outcome, (TICKS - shown.length + index) * 5, line, height);
      });
      const words = shown.map((tick) => (shapeOf(tick.outcome) === "hole" ? "did not run" : tick.outcome));
      const counts = [...new Set(words)].map((word) => `${words.filter((other) => other === word).length} ${word}`);
      mark(this.element, "aria-label", words.length ? `Last ${words.length} ticks: ${joined(counts)}` : "No tick yet");
      return drawn(paths);
    });
  }

  /** Tell of the tick at this place. */
  tell(index) {
    const tick = this.ticks[index - (TICKS - this.ticks.length)];
    const tip = $("tip");
    tip.hidden = !tick;
    if (!tick) return;
    const length = tick.durationMs == null ? "" : ` in ${took(tick.durationMs)}`;
    tip.replaceChildren(h("p", `${local(tick.slot)} · ${tick.outcome ?? "did not run"}${length}`), h("p", told(tick.why)));
    const box = this.element.getBoundingClientRect();
    const x = box.left + (index * box.width) / TICKS - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${box.top > tip.offsetHeight + 4 ? box.top - tip.offsetHeight - 4 : box.bottom + 4}px`;
  }
}

const runningOf = ({ lock }) =>
  isHeld(lock) && lock.unfinished && { slot: lock.unfinished, outcome: "running", durationMs: now() - Date.parse(lock.since) };

const hideTip = () => ($("tip").hidden = true);

on(document, "scroll", hideTip);
on(document, "pointermove pointerdown", (event) => {
  const strip = event.target.closest?.(".strip")?.strip;
  if (!strip) return hideTip();
  const { left, width } = strip.element.getBoundingClientRect();
  strip.tell(Math.floor(((event.clientX - left) / width) * TICKS));
});

// --- what is known

// `heard` is when, by the server; `trouble` is why that may be old.
const known = { jobs: new Map(), visitor: {}, database: "" };

const mayAct = () => known.visitor.canAct && !known.readOnly;

/** Take what was told: everything, or only what has changed; or why nothing is. */
function take({ facts, isEverything, trouble }) {
  known.trouble = trouble;
  if (facts) {
    setClock(facts.now);
    known.heard = facts.now;
    for (const field of ["leaders", "locks", "visitor", "readOnly", "database"]) known[field] = facts[field] ?? known[field];
    if (isEverything) known.jobs.clear();
    for (const gone of facts.gone ?? []) known.jobs.delete(gone);
    for (const one of facts.jobs) known.jobs.set(one.job, one);
  }
  show();
}

// --- the overview

/** One job on two lines. */
class Row {
  constructor(facts) {
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
    this.nowCell = cell({ class: "now" }, this.now, this.why);
    this.element = row(
      this.mark,
      cell(h("span.first", this.link), this.schedule),
      cell(this.next, this.countdown),
      this.nowCell,
      cell(this.strip.element),
      cell(this.last, this.took),
    );
    this.element.row = this;
    this.ticks = [];
    this.facts = facts;
    this.draw();
    inSight.observe(this.element);
  }

  draw() {
    const { facts } = this;
    const { last } = facts;
    this.element.classList.toggle("need", needsHand(facts));
    redraw(this.mark, facts.verdict, markOf);
    put(this.schedule, schedule(facts));
    mark(this.schedule, "title", joined([facts.line, facts.timezone], " · "));
    put(this.next, facts.next && local(facts.next));
    mark(this.next, "title", facts.next && utc(facts.next));
    const isPaused = facts.verdict === "paused" && !(facts.lock?.pausedUntil < facts.next);
    put(this.countdown, facts.next && (isPaused ? "if resumed" : countdown(facts.next)));
    const [first, second, isHot] = nowOf(facts);
    put(this.now, first);
    put(this.why, second);
    mark(this.nowCell, "title", joined([(!first || facts.verdict === "failing") && second, first && facts.why], " · "));
    this.nowCell.classList.toggle("hot", !!isHot);
    redraw(this.last, last?.outcome, (outcome) => outcome && [glyph(outcome), this.ago]);
    const at = last?.ended ?? last?.slot ?? last?.started;
    put(this.ago, at && ago(at));
    mark(this.last, "title", last && joined([last.outcome, at && utc(at)]));
    put(this.took, joined([last?.outcome !== "succeeded" && last?.outcome, last?.count > 1 && `${last.count} ticks`, took(last?.durationMs)]));
    this.strip.show(this.ticks, runningOf(facts));
    if (this.isVisible && this.drawnOf !== this.stripOf) want(this);
  }

  /** If this changes, the strip is old. */
  get stripOf() {
    const { last, lock, verdict } = this.facts;
    return [last?.key, last?.outcome, lock?.slot, verdict].join();
  }

  matches(words) {
    const { job, verdict, line, service, where, last, lock } = this.facts;
    const text = [job, verdict, schedule(this.facts), line, service, where, last?.outcome, owner(lock)].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  }
}

function countdown(text) {
  const left = Date.parse(text) - now();
  return left < 0 ? "due" : left < 1_000 ? "now" : `in ${span(left)}`;
}

const rows = new Map();
const inSight = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      target.row.isVisible = isIntersecting;
      if (isIntersecting) target.row.draw();
    }
  },
  { rootMargin: "200px" },
);

// Strips are asked for together, when their rows come in sight.
const wanted = new Set();
let asking = 0;

function want(row) {
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
    const { strips, problems } = await get(`api/strips?names=${batch.map((row) => encodeURIComponent(row.facts.job)).join()}`);
    for (const row of batch) {
      row.ticks = strips[row.facts.job] ?? [];
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

const rank = ({ facts }) => (needsHand(facts) ? 0 : facts.verdict === "unknown" ? 1 : facts.warning ? 2 : 3);

/** Put those in need on top, but not while somebody points at the rows or walks in them. */
function settle() {
  const order = [...rows.values()].sort((a, b) => rank(a) - rank(b) || (a.facts.job < b.facts.job ? -1 : 1));
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (place, rows) => {
    const elements = rows.map((row) => row.element);
    const isSame = elements.every((element) => element.parentNode === place);
    if (!isSame || performance.now() - touched > 4_000) arrange(place, elements);
    return elements.some((element) => !element.hidden);
  };
  for (const row of order) row.element.hidden = words.length > 0 && !row.matches(words);
  const hasActive = found($("list"), order.filter(({ facts }) => facts.verdict !== "retired"));
  const hasRetired = found($("retired"), order.filter(({ facts }) => facts.verdict === "retired"));
  $("list").hidden = $("legend").hidden = !hasActive;
  $("apart").hidden = !hasRetired;
  $("filter").hidden = rows.size === 0;
  $("nothing").hidden = hasActive || hasRetired || !known.heard;
  put($("nothing"), rows.size ? `No job matches “${$("filter").value}”.` : "Jobs appear once an instance starts that ticks (RUNTIME_INSTANCE=production).");
}

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
  settle();
}

const active = () => [...known.jobs.values()].filter((row) => row.verdict !== "retired");

const inNeed = () => active().filter(needsHand).length;

/** The first thing to read. */
function sentence() {
  const [all, need] = [active(), inNeed()];
  const odd = all.filter((row) => row.warning || row.verdict === "unknown").length;
  if (need) return `${counted(all.length)}, ${need} ${need === 1 ? "needs" : "need"} a hand`;
  if (all.length === 0) return "No jobs yet";
  return `${counted(all.length)}, ${all.length === 1 ? "as it" : "all as they"} should be${odd ? `; ${odd} worth a look` : ""}`;
}

/** The line below it: who runs and who is next; or, what is wrong with the connection. */
function showDetail() {
  if (known.trouble) return put($("detail"), known.trouble);
  const all = active();
  const count = (test, word) => all.some(test) && `${all.filter(test).length} ${word}`;
  let first = null;
  for (const row of all)
    if (row.next && row.verdict !== "paused" && Date.parse(row.next) > now() && !(row.next > first?.next)) first = row;
  const running = count((row) => isHeld(row.lock), "running");
  put($("detail"), joined([running, count((row) => row.verdict === "paused", "paused"), first && `next: ${first.job} ${countdown(first.next)}`], " · "));
}

function showState() {
  const { trouble, heard } = known;
  document.body.className = trouble ? "away" : heard ? "live" : "";
  put($("live"), trouble ? "away" : !heard ? "connecting" : live.isPolling ? `asks every ${POLL / 1_000} s` : "live");
  if (heard) put($("sentence"), (trouble ? `At ${local(heard)}: ` : "") + sentence());
  else if (trouble) put($("sentence"), "Nothing is known yet");
  const place = view.page?.job ?? VIEWS[view.kind].title ?? known.database;
  document.title = `${inNeed() ? `(${inNeed()}) ` : ""}${spelled(place)} · firecron`;
  // The overview has a line of its own for it.
  const since = heard ? ` Shown as of ${local(heard)}.` : "";
  put($("problem"), view.kind === "jobs" ? "" : trouble ? trouble + since : view.problem);
  showDetail();
}

on($("v-jobs"), "click", (event) => {
  const row = event.target.closest("[role=row]")?.row;
  if (row && getSelection().isCollapsed && !event.target.closest("a, .strip")) location.hash = row.link.hash;
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

// --- the views, and the tables of those that are tables

const showParts = (facts, ...names) => names.forEach((name) => parts[name].show(facts[name] ?? [], facts.problems?.[name]));

const VIEWS = {
  jobs: { show: showJobs },
  job: { show: () => view.page.show(), load: () => view.page.load() },
  instances: { title: "Instances", load: async () => showParts(await get("api/instances"), "instances", "groups") },
  locks: { title: "Leaders and locks", show: () => showParts(known, "leaders", "locks") },
  acts: { title: "Acts", load: async () => showParts(await get("api/acts"), "acts") },
};
for (const [kind, { title }] of Object.entries(VIEWS))
  if (title) find("main")[0].append(h("section", { id: `v-${kind}`, "aria-label": title, hidden: true }, h("h1", { tabindex: -1 }, title)));

/** Show items as rows. What has not changed is left alone. */
function list(table, items, keyOf, make) {
  const before = table.made;
  table.made = new Map();
  for (const item of items) {
    const facts = JSON.stringify([item, mayAct()]);
    const old = before?.get(keyOf(item));
    table.made.set(keyOf(item), old?.facts === facts ? old : { facts, element: make(item) });
  }
  keepFocus(table, () => arrange(table, [...table.made.values()].map(({ element }) => element)));
}

/** A heading and its table, or a sentence where there is nothing. A column has a label, and makes its cells. */
class Part {
  constructor(view, title, empty, keyOf, columns) {
    this.table = h("div", { role: "table", class: "rows parts", "aria-label": title }, labels(...columns.map(([label]) => label)));
    this.empty = h("p.sub");
    this.none = empty;
    this.table.hidden = this.empty.hidden = true;
    this.keyOf = keyOf;
    this.make = (item) => row(...columns.map(([label, fill]) => cell({ "data-label": label }, fill(item))));
    $(`v-${view}`).append(h("h2", title), this.table, this.empty);
  }

  show(items, problem = this.none) {
    put(this.empty, problem);
    this.empty.hidden = !(this.table.hidden = !items.length);
    list(this.table, items, this.keyOf, this.make);
  }
}

const mono = (text) => text && h("span.mono", told(text));
const gone = (isThere) => !isThere && h("span.note", " gone");
const jobLink = (job) => (known.jobs.has(job) ? h("a.link", { href: hashOf(job) }, told(job)) : told(job));
const links = (names) => names.map((job) => h("div", jobLink(job)));

const parts = {
  instances: new Part("instances", "Processes", "No instance is known.", (one) => one.process ?? owner(one), [
    ["Instance", (one) => [mono(owner(one)), gone(one.alive)]],
    ["Started", (one) => time(one.startedAt)],
    ["Seen", (one) => time(one.seenAt)],
    ["Jobs", (one) => String(one.jobs ?? "")],
    ["Runs now", (one) => (one.running.length ? links(one.running) : "nothing")],
  ]),
  groups: new Part("instances", "Groups", "No group is known.", (group) => group.group, [
    ["Service", (group) => [told(group.service ?? "not known"), gone(group.live)]],
    ["Group", (group) => mono(group.group)],
    ["First seen", (group) => time(group.firstSeenAt)],
    ["Seen", (group) => time(group.seenAt)],
    ["Has", ({ jobs }) => jobs && h("details", h("summary", counted(jobs.length)), links(jobs))],
  ]),
  leaders: lockPart("Leaders", "Nobody leads."),
  locks: lockPart("Other locks", "No other lock is known."),
  acts: new Part("acts", "Newest first", "Nobody has done anything yet.", (act) => JSON.stringify(act), [
    ["When", (act) => time(act.at)],
    ["Act", (act) => act.act.replace("depose", "step down")],
    ["Name", (act) => jobLink(act.name)],
    ["Who", (act) => told(act.who ?? "not known")],
    ["Why", (act) => told(act.why)],
  ]),
};

function lockPart(title, empty) {
  const state = (lock) => (lock.kind === "leader" && isHeld(lock) ? "leads" : lock.state.replace("_", " "));
  return new Part("locks", title, empty, (lock) => lock.name, [
    ["Name", (lock) => [h("strong", told(lock.name)), besides(lock).map((line) => h(lock.problem ? "div.error" : "div.sub", told(line)))]],
    ["State", (lock) => (lock.paused ? `paused, ${state(lock)}` : state(lock))],
    ["By", (lock) => mono(owner(lock))],
    ["Since", (lock) => (isHeld(lock) ? time(lock.since) : lock.released && ["released ", time(lock.released)])],
    ["Actions", (lock) => buttons(lock.name, actsOn(lock))],
  ]);
}

// --- a job

const TRIGGERS = { schedule: "on schedule", catch_up: "caught up", rerun: "begun again", manual: "by hand", http: "by a trigger" };

class JobView {
  constructor(job) {
    this.job = job;
    this.ticks = [];
    this.strip = new Strip(48);
    this.strip.element.tabIndex = 0;
    on(this.strip.element, "keydown", (event) => this.walk(event));
    on(this.strip.element, "blur", hideTip);
    $("v-job").replaceChildren($("job-template").content.cloneNode(true));
    $("job-name").append(told(job));
    $("job-strip").append(this.strip.element);
    $("runs").append(labels("Outcome", "Tick", "Lag", "Took", "By", "More"));
    $("back").href = overviewHash();
    this.show();
  }

  show() {
    this.row = known.jobs.get(this.job);
    const { row, detail } = this;
    redraw($("words"), row ? row.lock : detail?.lock, (lock) => inWords(lock).map((line) => h("p", told(line))));
    if (!row) return;
    redraw($("job-mark"), row.verdict, markOf);
    put($("job-schedule"), joined([schedule(row), row.line !== row.words && row.line], " · "));
    const acts = mayAct() ? [detail?.runnable && "run", ...actsOn(row.lock)] : [];
    redraw($("job-acts"), acts, () => buttons(this.job, acts));
    put($("job-cannot"), mayAct() && detail?.runnable === false && `It can't be run from here: ${detail.why_not_runnable}.`);
    this.strip.show(this.ticks, runningOf(row));
    $("job-strip").hidden = this.strip.ticks.length === 0;
    this.tick();
  }

  tick() {
    if (!this.row) return;
    const { verdict, next } = this.row;
    const why = localized(this.row.why);
    const [first, second, isHot] = nowOf(this.row);
    put($("job-now"), first || (next ? `${verdict}, next ${countdown(next)}` : verdict));
    $("job-now").classList.toggle("hot", !!isHot);
    const lines = [...new Set([needsHand(this.row) && second, warningOf(this.row), why])];
    mark($("job-why"), "title", this.row.why);
    redraw($("job-why"), lines, () => lines.map((line) => line && h("p", told(line))));
    for (const tick of find("#next time")) put(tick.nextSibling, countdown(tick.dateTime));
  }

  async load() {
    const job = encodeURIComponent(this.job);
    const [detail, { strips }] = await Promise.all([get(`api/jobs/${job}`), get(`api/strips?names=${job}`)]);
    if (view.page !== this) return;
    setClock(detail.now);
    this.detail = detail;
    const ticks = (this.ticks = strips[this.job] ?? []);
    const runs = detail.runs ?? [];
    this.show();
    $("job-body").hidden = false;
    const longest = Math.max(...ticks.map((tick) => tick.durationMs));
    const scale = [longest > 0 && h("span", `longest ${took(longest)}`), time(ticks.at(-1)?.slot)];
    redraw($("scale"), ticks, () => [ticks.length === TICKS && time(ticks[0].slot), ...scale]);
    $("no-runs").hidden = !($("runs").hidden = !runs.length);
    put($("no-runs"), detail.problems.runs ?? "No run is recorded.");
    list($("runs"), runs, (run) => run.key, (run) => runRow(this.job, run, detail.runnable));
    redraw($("next"), detail.next, nextList);
    redraw($("options"), detail.options, optionList);
    $("raw").textContent = JSON.stringify(detail.node, null, 2).split("\n").map(spelled).join("\n");
  }

  /** The arrows tell of one tick after another. */
  walk(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.place = Math.max(TICKS - this.strip.ticks.length, Math.min(TICKS - 1, (this.place ?? TICKS) + step));
    this.strip.tell(this.place);
  }
}

function runRow(job, run, isRunnable) {
  const count = run.count > 1 || run.atLeast ? ` ×${run.count}${run.atLeast ? " or more" : ""}` : "";
  const isBad = ["bad", "lost"].includes(shapeOf(run.outcome));
  const begun = joined([TRIGGERS[run.trigger] ?? run.trigger, run.attempt > 1 && `attempt ${run.attempt}`]);
  const lag = run.started && run.slot ? Date.parse(run.started) - Date.parse(run.slot) : null;
  const more = [
    run.error && h("p.error", told(run.error)),
    run.steps.length && h("details", h("summary", counted(run.steps.length, "step")), h("ol", run.steps.map(step))),
  ].filter(Boolean);
  return row(
    cell(glyph(run.outcome), h(isBad ? "span.error" : "span", run.outcome, count), begun && h("span.sub", begun)),
    cell(time(run.slot ?? run.started) ?? told(run.key)),
    cell({ class: "number", "data-label": "lag" }, lag == null ? null : span(lag)),
    cell({ class: "number", "data-label": "took" }, took(run.durationMs)),
    cell(run.recordedBy && h("span.sub", `recorded by the ${run.recordedBy}`), mono(owner(run)), run.note && h("div", told(run.note))),
    cell(
      { class: "end" },
      isRunnable && RESUMABLE.includes(run.outcome) && buttons(job, ["again"], run),
      /^https:/.test(run.logs) && h("a.link", { href: run.logs, target: "_blank", rel: "noreferrer" }, "Logs"),
    ),
    more.length > 0 && cell({ class: "wide" }, more),
  );
}

function step(one) {
  const length = one.started && one.done && `took ${took(Date.parse(one.done) - Date.parse(one.started))}`;
  const word = one.state === "begun" ? "begun: nobody knows its end" : one.state;
  return h("li", told(one.name), " ", h("span.note", joined([word, length])));
}

const nextList = (ticks) =>
  ticks.length
    ? ticks.map(({ slot, note }) => h("li", time(slot), h("span.note", countdown(slot)), note && h("p.note", told(note))))
    : h("li.note", "No tick will come.");

/** "Catch up" from `catchUp`. */
function optionList(options) {
  const said = (key, value) => {
    if (["every", "grace", "expectedRuntime"].includes(key)) return span(value * 1_000);
    return typeof value === "boolean" ? (value ? "yes" : "no") : localized(String(value));
  };
  const words = (key) => key.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const set = Object.entries(options ?? {}).filter(([, value]) => value != null);
  return set.flatMap(([key, value]) => [h("dt", words(key)), h("dd", told(said(key, value)))]);
}

/** What a lock's node says, in sentences. */
function inWords(lock) {
  if (!lock || lock.state === "absent") return ["No instance has claimed a tick yet."];
  const by = owner(lock) || "A holder without a name";
  const states = {
    held: `${by} has held it since ${local(lock.since)}, until ${local(lock.until)} if it is not renewed.`,
    minimum_hold: `${by} has released it. It is kept until ${local(lock.until)}, as the job asks.`,
    free: lock.released ? `Free: ${by} released it at ${local(lock.released)}.` : "Free.",
    died: `Free: ${by} has had it since ${local(lock.since)}, and did not renew it after ${local(lock.until)}.`,
    unlocked: `Unlocked. ${by} may still run, until its next renewal.`,
    malformed: "Nobody can claim it.",
  };
  return [
    states[lock.state],
    lock.slot && `The newest claimed tick is ${joined([local(lock.slot), lock.attempt > 1 && `attempt ${lock.attempt}`])}${because(lock.outcome)}.`,
    lock.unfinished && !isHeld(lock) && `Nobody saw the end of the tick ${local(lock.unfinished)}.`,
    ...besides(lock),
  ].filter(Boolean);
}

const because = (why) => (why ? `: ${why}` : "");

/** What somebody has done to the lock, and what is wrong with it. */
function besides(lock) {
  const until = lock.pausedUntil && `until ${local(lock.pausedUntil)}`;
  return [
    lock.paused && `${joined(["Paused", lock.pausedBy && `by ${lock.pausedBy}`, until], " ")}${because(lock.pausedWhy)}.`,
    lock.cancelled && `Its holder was asked to stop${because(lock.cancelWhy)}.`,
    lock.problem && `${lock.problem}${because(lock.remedy)}.`,
  ].filter(Boolean);
}

// --- acting

const WHY = { name: "why", label: "Why, for the others", maxlength: 500 };
const UNTIL = { name: "until", label: "Until, in your time (or empty)", type: "datetime-local" };
const instant = (text) => text && new Date(text).toISOString().replace(/\..*/, "Z");
const toStop = (lock, { why }) => ({ why, fence: lock.fence });

// Each act: its button, its path, its body, what its dialog says and asks for.
const ACTS = {
  run: [
    "Run now",
    "run",
    () => ({}),
    (lock) => `${lock.name} runs once, now, under its lock, where this page is served.`,
  ],
  again: [
    "Resume",
    "run",
    (lock, fields, run) => ({ resume: run.key }),
    (lock, run) => `${lock.name} runs the tick ${localized(run.key)} again, as its next attempt. Recorded steps are not done again.`,
  ],
  pause: [
    "Pause…",
    "pause",
    (lock, { why, until }) => ({ why, until: instant(until) }),
    (lock) => `No instance starts ${lock.name} any more.${isHeld(lock) ? " The run that is under way goes on." : ""}`,
    WHY,
    UNTIL,
  ],
  resume: ["Resume", "resume", () => ({}), (lock) => `All instances may start ${lock.name} again, from its next tick on.`],
  cancel: [
    "Cancel…",
    "cancel",
    toStop,
    (lock) => `The run of ${lock.name} on ${owner(lock)} is asked to stop. It stops where it looks.`,
    WHY,
  ],
  down: [
    "Step down…",
    "cancel",
    toStop,
    (lock) => `${owner(lock)} is asked to stop leading ${lock.name}. Then an instance is elected anew.`,
    WHY,
  ],
  unlock: [
    "Unlock…",
    "unlock",
    (lock, { why }) => ({ why, acquiredAt: lock.since }),
    (lock) => `Takes ${lock.name} from ${owner(lock)}. If that run is alive, another may run beside it until it notices.`,
    WHY,
  ],
};

function actsOn(lock) {
  if (lock?.state === "malformed") return [];
  const stop = lock?.kind === "leader" ? "down" : "cancel";
  const isTaken = isHeld(lock) || lock?.state === "minimum_hold";
  return [lock?.paused ? "resume" : "pause", isHeld(lock) && lock.fence != null && stop, isTaken && "unlock"];
}

function buttons(name, acts, run = null) {
  if (!mayAct()) return [];
  const button = (act) =>
    act && h(act === "run" ? "button.primary" : "button", { type: "button", "data-act": act, click: () => ask(act, name, run) }, ACTS[act][0]);
  return h("div.actions", acts.map(button));
}

let asked = null;
const actsHere = () => find("section:not([hidden]) button");

/** Say what will happen, and to what. */
function ask(act, name, run) {
  const [label, , , effect, ...fields] = ACTS[act];
  const found = known.jobs.get(name)?.lock ?? [...known.leaders, ...known.locks].find((lock) => lock.name === name);
  const lock = { ...found, name };
  const word = label.replace("…", "");
  const from = document.activeElement;
  asked = { act, name, lock, run, from, place: actsHere().indexOf(from) };
  $("dialog-title").replaceChildren(`${word} `, told(name));
  $("dialog-effect").replaceChildren(told(effect(lock, run)));
  $("dialog-fields").replaceChildren(...fields.map(({ label, ...field }) => h("label", label, h("input", { autocomplete: "off", ...field }))));
  put($("complaint"), "");
  put($("confirm"), word);
  $("confirm").disabled = false;
  $("dialog").showModal();
  ($("dialog-fields").querySelector("input") ?? $("leave")).focus();
}

on($("leave"), "click", () => $("dialog").close());

on($("dialog"), "close", () => focusHeir(actsHere(), asked.from, asked.place));

on($("dialog").querySelector("form"), "submit", async (event) => {
  event.preventDefault();
  const doing = asked;
  const { act, name, lock, run } = doing;
  const fields = Object.fromEntries([...new FormData(event.target)].map(([name, text]) => [name, text.trim()]));
  const [, path, body] = ACTS[act];
  const isOpen = () => asked === doing && $("dialog").open;
  put($("complaint"), "");
  $("confirm").disabled = true;
  // The reply to a run comes when it has ended.
  const running = path === "run" ? notice(`${name} runs.`, true) : null;
  if (running) {
    $("dialog").close();
    setTimeout(() => live.wake(), 500);
  }
  try {
    const { message } = await post(`api/jobs/${encodeURIComponent(name)}/${path}`, body(lock, fields, run));
    if (isOpen()) $("dialog").close();
    notice(message);
  } catch (error) {
    if (isOpen()) put($("complaint"), localized(error.message));
    else notice(error.message, true);
    $("confirm").disabled = false;
  }
  running?.remove();
  live.wake();
  refreshView();
});

/** Tell something, for ten seconds or until it is closed. */
function notice(text, stays) {
  const element = h("p", told(localized(text)), h("button", { type: "button", click: () => element.remove() }, "Close"));
  $("notices").append(element);
  if (!stays) setTimeout(() => element.remove(), 10_000);
  return element;
}

// --- asking the server

async function reply(response) {
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  throw Object.assign(new Error(body?.message ?? `${response.status} ${response.statusText}`), { status: response.status });
}

const fetched = (path, headers = {}) => fetch(path, { headers, signal: AbortSignal.timeout(PATIENCE) });

const get = async (path) => reply(await fetched(path));

async function post(path, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options).catch(() => null);
  if (!response) throw new Error("The page's server did not reply: look whether it was done.");
  return reply(response);
}

function described({ status, message }) {
  if (status === 503) return awayBecause(message);
  if (status) return `The page's server says: ${message}.${status < 404 ? " Reload the page to sign in again." : ""}`;
  return navigator.onLine ? "The page's server does not reply." : "This browser is offline.";
}

const awayBecause = (message) => `The database is away: ${message.replace(/\.$/, "")}.`;

// --- live
//
// Of a browser's windows one has the stream, by a lock of the browser's, and tells the others; or it asks every few
// seconds, with an ETag. A hidden window has no part in it.

const HERE = `firecron ${location.pathname}`;
const live = { stop: null, etag: null, wake() {}, end() {} };
const channel = new BroadcastChannel(HERE);

on(channel, "message", ({ data }) => live.stop && take(data));

/** Take what was heard, and tell the other windows. */
function hear(said) {
  take(said);
  if (live.isLeading) channel.postMessage(said);
}

/** Ask for everything. Returns whether it came. */
async function refresh() {
  try {
    const response = await fetched("api/jobs", live.etag ? { "If-None-Match": live.etag } : {});
    if (response.status === 304) hear({});
    else {
      hear({ facts: await reply(response), isEverything: true });
      live.etag = response.headers.get("ETag");
    }
    return true;
  } catch (error) {
    hear({ trouble: described(error) });
    return false;
  }
}

/** Hear the stream to its end. Returns whether it was refused. */
function listen(signal) {
  return new Promise((resolve) => {
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
      live.isPolling = false;
      live.etag = null;
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
  new Promise((resolve) => {
    setTimeout(resolve, ms);
    live.wake = resolve;
  });

async function attend() {
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
      live.isPolling = !!(await listen(signal));
      if (live.isPolling) refusedAt = performance.now();
      await pause(live.isPolling ? 0 : 500);
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

// --- which view

// `problem` is why what it asks for did not come.
const view = { problem: "", scrolled: 0, timer: 0 };

const hashOf = (job) => `#job/${encodeURIComponent(job)}`;
const overviewHash = () => ($("filter").value ? `#?${encodeURIComponent($("filter").value)}` : "#");

/** What a part of the address says; it may be broken. */
const decoded = (text) => new URLSearchParams(`x=${text.replaceAll("+", "%2B")}`).get("x");

function route() {
  const hash = location.hash.slice(1);
  const job = hash.startsWith("job/") ? decoded(hash.slice(4)) : null;
  const kind = job ? "job" : VIEWS[hash]?.title ? hash : "jobs";
  const { kind: before } = view;
  if (before === kind && kind !== "jobs" && view.page?.job == job) return;
  if (before === "jobs") view.scrolled = scrollY;
  for (const section of find("main > section")) section.hidden = section.id !== `v-${kind}`;
  for (const link of find("nav a")) mark(link, "aria-current", (link.hash.slice(1) || "jobs").startsWith(kind) && "page");
  hideTip();
  if (kind === "jobs") $("filter").value = hash.startsWith("?") ? decoded(hash.slice(1)) : "";
  touched = -Infinity;
  const left = rows.get(view.page?.job)?.link;
  view.kind = kind;
  view.problem = "";
  view.page = kind === "job" ? new JobView(job) : null;
  show();
  refreshView();
  if (!before || (before === kind && kind === "jobs")) return;
  (kind === "jobs" && left ? left : find(`#v-${kind} h1`)[0]).focus({ preventScroll: true });
  scrollTo(0, kind === "jobs" ? view.scrolled : 0);
}

function show() {
  put($("database"), known.database.replace(/^https?:\/\//, ""));
  put($("who"), joined([known.visitor.who, known.heard && !mayAct() && "may look, not act"]));
  if (known.heard) VIEWS[view.kind].show?.();
  showState();
  const facts = known.trouble ?? JSON.stringify(view.page ? view.page.row : known.heard);
  if (facts !== view.facts) refreshView();
  view.facts = facts;
}

/** Ask for what the view shows besides the rows, once for all within a moment. */
function refreshView() {
  view.isOld = true;
  if (view.timer || document.hidden) return;
  view.timer = setTimeout(async () => {
    view.isOld = false;
    const { kind, page } = view;
    const problem = await VIEWS[kind].load?.().then(() => "", described);
    if (view.kind === kind && view.page === page) view.problem = problem;
    showState();
    view.timer = 0;
    if (view.isOld) refreshView();
  }, 100);
}

setInterval(() => {
  if (document.hidden) return;
  if (view.kind === "jobs" && known.heard) {
    for (const row of rows.values()) if (row.isVisible) row.draw();
    settle();
  }
  view.page?.tick();
  showDetail();
}, 1_000);
setInterval(() => view.kind === "instances" && refreshView(), 15_000);

for (const outcome of ["succeeded", "failed", "lost", "cancelled", "missed", "running"])
  $("legend").append(h("li", glyph(outcome), LEGEND[outcome] ?? outcome));
$("list").append(labels("Verdict", "Job", "Next", "Now", "Last 50 ticks", "Last run"));
history.scrollRestoration = "manual";
on(window, "hashchange", route);
route();
attend();
