// What a fleet costs in a month: docs/reference/calculator.md. The figures are those of docs/reference/cost.md, which
// tests/bench measures; tests/docs/test_calculator.py compares the two. Plain JavaScript: no library, nothing is sent.
"use strict";

const MONTH = 30 * 86400; // seconds
const FREE = 10; // GB that the database sends in a month for nothing
const PRICE = 1; // dollars for each further GB
const SENT = 0.54; // the part of all bytes that the database sends

const WINNER = { requests: 3, bytes: 3117 };
const LOSER = { requests: 1.2, bytes: 1300 };
const RENEWAL = { requests: 1, bytes: 1000 };
const BEAT = { requests: 1, bytes: 855 };
const LATE = { requests: 2, bytes: 792 };
const DEAD = { requests: 3, bytes: 1207, instance: 127 };
const ROUND = { job: 613, many: 245 };

// Of a large fleet so many ask for a tick, if there is time for two heartbeats before the next one.
const ASKERS = 12;
const LOOKERS = 3;
const HEARTBEAT = 30;
const INTERVAL = 300;

function times(cost, number) {
    return { requests: cost.requests * number, bytes: cost.bytes * number };
}

function sum(costs) {
    return {
        requests: costs.reduce((total, cost) => total + cost.requests, 0),
        bytes: costs.reduce((total, cost) => total + cost.bytes, 0),
    };
}

/** What one tick costs that runs for so many seconds. */
function tick({ instances, interval, runtime = 0, ttl = 60 }) {
    const askers = interval < 2 * HEARTBEAT ? instances : Math.min(instances, ASKERS);
    const renewals = Math.floor(runtime / (ttl / 3));
    return sum([WINNER, times(LOSER, askers - 1), times(RENEWAL, renewals)]);
}

/** What a month costs: requests, GB in both directions, GB that the database sends, dollars. */
function month({ jobs, instances, interval, runtime = 0, ttl = 60, reruns = false }) {
    const looks = MONTH / INTERVAL;
    const round = jobs > 10 ? { requests: 2, bytes: ROUND.many * jobs } : { requests: jobs, bytes: ROUND.job * jobs };
    const dead = { requests: DEAD.requests, bytes: DEAD.bytes + DEAD.instance * instances };
    const parts = [
        ["ticks", times(tick({ instances, interval, runtime, ttl }), (jobs * MONTH) / interval)],
        ["heartbeats", times(BEAT, (instances * MONTH) / HEARTBEAT)],
        ["looks for late jobs", times(LATE, Math.min(instances, LOOKERS) * looks)],
        ["looks for dead instances", times(dead, instances > ASKERS ? MONTH / HEARTBEAT : instances * looks)],
        ["looks for runs to repeat", times(round, reruns ? Math.min(instances, ASKERS) * looks : 0)],
    ];
    const all = sum(parts.map(([, cost]) => cost));
    const sent = (all.bytes * SENT) / 1e9;
    return { parts, requests: all.requests, moved: all.bytes / 1e9, sent, dollars: Math.max(0, sent - FREE) * PRICE };
}

function rounded(number) {
    return number.toLocaleString("en", { maximumFractionDigits: number < 10 ? 2 : 0 });
}

/** Fill the table of the page as its form says. */
function show(form) {
    const given = Object.fromEntries([...form.elements].map((field) => [field.name, Number(field.value)]));
    const problem = [...form.elements].find((field) => !field.checkValidity());
    const found = month({ ...given, reruns: form.elements.reruns.checked });
    const lines = found.parts.map(([name, cost]) => [name, cost.requests, cost.bytes / 1e9]);
    const rows = [...lines, ["all", found.requests, found.moved]];
    const body = document.querySelector("#calculator-rows");
    body.replaceChildren(
        ...rows.map(([name, requests, moved]) => {
            const row = document.createElement("tr");
            for (const text of [name, rounded(requests), rounded(moved)]) {
                row.appendChild(document.createElement("td")).textContent = text;
            }
            return row;
        }),
    );
    document.querySelector("#calculator-answer").textContent = problem
        ? `${problem.labels[0].textContent.trim()}: ${problem.validationMessage}`
        : `${rounded(found.sent)} GB a month are sent by the database: ${rounded(found.dollars)} dollars.`;
}

if (typeof document !== "undefined") {
    const form = document.querySelector("#calculator");
    form.hidden = false;
    form.addEventListener("input", () => show(form));
    form.addEventListener("submit", (event) => event.preventDefault());
    show(form);
}

if (typeof module !== "undefined") {
    module.exports = { month, tick };
}
