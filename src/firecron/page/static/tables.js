// The views that are tables: instances, leaders and locks, acts.

import { buttons } from "./menu.js";
import { $, about, cell, find, h, labels, list, mono, put, row, since, time, told } from "./dom.js";
import { known } from "./known.js";
import { get } from "./server.js";
import { hashOf } from "./views.js";
import { besides, counted, isHeld, joined, owner } from "./words.js";

/** @type {Record<string, View>} */
export const VIEWS = {
  instances: { title: "Instances", load: async () => showParts(withHeadings(await get("api/instances")), "instances", "groups") },
  locks: { title: "Leaders and locks", show: () => showParts(known, "leaders", "locks") },
  acts: { title: "Acts", load: async () => showParts(await get("api/acts"), "acts") },
};
for (const [kind, { title }] of Object.entries(VIEWS))
  find("main")[0].append(h("section", { id: `v-${kind}`, "aria-label": title, hidden: true }, h("h1", { tabindex: -1 }, title)));

/** A heading and its table, or a sentence where there is nothing. A column has a label, and makes its cells. */
class Part {
  constructor(view, title, empty, keyOf, columns) {
    this.table = h("div", { role: "table", class: "rows parts", "aria-label": title }, labels(...columns.map(([label]) => label)));
    this.empty = h("p.sub");
    this.none = empty;
    this.table.hidden = this.empty.hidden = true;
    this.keyOf = keyOf;
    this.make = (item) => (item.heading ? row(cell({ class: "wide" }, item.heading())) : row(...columns.map(([label, fill]) => cell({ "data-label": label }, fill(item)))));
    $(`v-${view}`).append(h("h2", title), this.table, this.empty);
  }

  show(items, problem = this.none) {
    put(this.empty, problem);
    this.empty.hidden = !(this.table.hidden = !items.length);
    list(this.table, items, this.keyOf, this.make);
  }
}

/** The last sign of life, or that there is none any more. */
const sign = (isThere, seenAt) => (isThere ? since(seenAt) : [h("span.error", "dead"), ", last sign ", since(seenAt) ?? "never"]);

/** The instances, with a heading above those of each service and revision, which come together. */
function withHeadings(facts) {
  const placeOf = ({ service, instanceId }) => joined([service, instanceId !== service && instanceId], " · ");
  const items = (facts.instances ?? []).flatMap((one, index, all) => {
    const place = placeOf(one);
    if (index && place === placeOf(all[index - 1])) return [one];
    const own = all.filter((other) => placeOf(other) === place);
    const alive = own.filter((other) => other.alive).length;
    const counts = joined([`${alive} alive`, alive < own.length && `${own.length - alive} dead`]);
    return [{ heading: () => [h("strong", told(place || "not known")), h("span.note", ` ${counts}`)], process: `head ${place}`, counts }, one];
  });
  return { ...facts, instances: items };
}
const jobLink = (job) => (known.jobs.has(job.split(":")[0]) ? h("a.link", { href: hashOf(job) }, told(job)) : told(job));
const links = (names) => names.map((job) => h("div", jobLink(job)));

const parts = {
  instances: new Part("instances", "Processes", "No instance is known.", (one) => one.process ?? owner(one), [
    ["Instance", (one) => h("a.link", { href: `#?${encodeURIComponent(one.instance)}`, title: "Its jobs" }, mono(one.instance))],
    ["Last sign", (one) => sign(one.alive, one.seenAt)],
    ["Started", (one) => since(one.startedAt)],
    ["Has", (one) => one.jobs != null && counted(one.jobs)],
    ["Runs now", (one) => (one.running.length ? links(one.running) : "nothing")],
  ]),
  groups: new Part("instances", "Instances with the same jobs", "No group is known.", (group) => group.group, [
    ["Service", (group) => h("span", { title: group.group }, told(group.service ?? "not known"))],
    ["Last sign", (group) => sign(group.live, group.seenAt)],
    ["First seen", (group) => since(group.firstSeenAt)],
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
    ["Name", (lock) => [h("strong", told(lock.name)), about(lock), besides(lock).map((line) => h(lock.problem ? "div.error" : "div.sub", told(line)))]],
    ["State", (lock) => (lock.paused ? `paused, ${state(lock)}` : state(lock))],
    ["By", (lock) => mono(owner(lock))],
    ["Since", (lock) => (isHeld(lock) ? time(lock.since) : lock.released && ["released ", time(lock.released)])],
    ["Actions", (lock) => buttons(lock.name, lock.acts.filter((act) => act !== "mend"))],
  ]);
}

const showParts = (facts, ...names) => names.forEach((name) => parts[name].show(facts[name] ?? [], facts.problems?.[name]));
