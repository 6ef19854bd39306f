// The schedules of a stored job, by pages.

import { cell, h, labels, list, put, row, since, time, told } from "./dom.js";
import { known, mayAct } from "./known.js";
import { menuButton } from "./menu.js";
import { glyph, markOf } from "./pictures.js";
import { described, get } from "./server.js";
import { countdown } from "./time.js";
import { hashOf, refreshView } from "./views.js";
import { counted, nowOf, schedule } from "./words.js";

function entryRow(/** @type {Job} */ facts) {
  const { job, acts, entry, last, next, verdict } = facts;
  const [first, second, isHot] = nowOf(facts);
  const state = (verdict !== "retired" && first) || entry?.state;
  return row(
    cell(markOf(verdict)),
    cell(h("span.first", h("a.name", { href: hashOf(job) }, told(entry?.key))), h("span.sub", told(schedule(facts) || "no schedule"))),
    cell(next && [h("span.first", time(next)), h("span.sub", countdown(next))]),
    cell({ class: isHot || state === "missed" ? "now hot" : "now" }, h("span.first", told(state)), h("bdi.sub", second)),
    cell(entry?.by && ["by ", told(entry.by)]),
    cell(last && [glyph(last), since(last.ended)]),
    cell({ class: "acts" }, mayAct() && acts.length > 0 && menuButton(job, () => known.entries.get(job)?.acts ?? [])),
  );
}

export class Entries {
  constructor(job, place) {
    this.path = `api/jobs/${encodeURIComponent(job)}/schedules`;
    // After which keys the pages begin, and the next.
    this.pages = [""];
    this.more = "";
    const button = (text, click) => h("button", { click }, text);
    this.find = h("input", { type: "search", placeholder: "Key begins with", input: () => this.turn([""]) });
    this.back = button("Back", () => this.turn(this.pages.slice(0, -1)));
    this.next = button("Next", () => this.turn([...this.pages, this.more]));
    this.count = button("Count", () => this.counts());
    this.table = h("div.rows jobs", { role: "table", "aria-label": "Schedules" }, labels("Verdict", "Key", "Next", "Now", "Put", "Last run", "Acts"));
    this.said = h("p.note", { role: "status" });
    place.replaceChildren(h("div.head", h("h2", "Schedules"), h("div.actions", this.find, this.back, this.next, this.count)), this.table, this.said);
  }

  turn(pages) {
    this.pages = pages;
    refreshView();
  }

  async load() {
    const { find, pages } = this;
    const asked = new URLSearchParams({ prefix: find.value, after: pages.at(-1) ?? "" });
    const found = await get(`${this.path}?${asked}`).catch((error) => put(this.said, described(error)));
    if (!found || pages !== this.pages) return;
    const { schedules, after } = found;
    this.more = after;
    known.entries = new Map(schedules.map((one) => [one.job, one]));
    list(this.table, schedules, (one) => one.job, entryRow);
    this.table.hidden = !schedules.length;
    put(this.said, !schedules.length && (find.value ? `No key begins with “${find.value}”.` : "No schedule is stored."));
    this.back.disabled = pages.length === 1;
    this.next.disabled = !after;
    this.tick();
  }

  async counts() {
    put(this.count, await get(`${this.path}/count`).then(({ count }) => counted(count, "schedule"), described));
  }

  tick() {
    for (const at of this.table.querySelectorAll("time:not([data-ago])")) put(at.parentNode.nextSibling, countdown(at.dateTime));
  }
}
