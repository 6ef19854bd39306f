// The page: what the address says is what is shown, and what the emulator sends is what is there.

import { Editor } from "./editing.js";
import { Operations } from "./operations.js";
import { Refusal, Socket } from "./socket.js";
import { counted, element, foreign } from "./text.js";
import { Tree } from "./tree.js";

const LOCKS = "/cron-locks";
const at = (id) => document.getElementById(id);

let place; // what the address says: namespace (null: the emulator's choice), path, isConsole
let socket = null;
let database = null; // the name, once the emulator has said it
let isLive = false;
let asked = ""; // the windows that it was asked for last, as JSON

const operations = new Operations((path) => hrefOf({ path }));
const editor = new Editor(() => socket, () => tree.select(tree.selected, true));
const tree = new Tree({ show, select, edit: () => attempt(() => editor.edit(path())), add: () => attempt(() => editor.add(path())), copy, remove });

// --- the address ------------------------------------------------------------

function readPlace() {
  const parameters = new URLSearchParams(location.search);
  const keys = (parameters.get("path") ?? "").split("/").filter(Boolean);
  return { namespace: parameters.get("ns"), path: `/${keys.join("/")}`, isConsole: parameters.get("view") === "console" };
}

function hrefOf(changes) {
  const { namespace, path, isConsole } = { ...place, ...changes };
  const parameters = new URLSearchParams();
  if (namespace !== null) parameters.set("ns", namespace);
  if (path !== "/") parameters.set("path", path);
  if (isConsole) parameters.set("view", "console");
  return `?${parameters}`.replaceAll("%2F", "/");
}

function go(changes) {
  const href = hrefOf(changes);
  if (href !== (location.search || "?")) history.pushState(null, "", href);
  arrive();
}

/** Show what the address says. */
function arrive() {
  const before = place;
  place = readPlace();
  at("view").value = place.isConsole ? (place.path === LOCKS ? "cron-locks" : "console") : "tree";
  if (!before || before.namespace !== place.namespace) {
    database = null;
    connect();
  }
  if (isLive) request('{"show":{}}'); // so that it sends again what it has sent before
  asked = "";
  tree.reset(place.path, labelOf(), place.isConsole);
}

function labelOf() {
  return place.path === "/" ? (database ?? place.namespace ?? "/") : place.path.slice(place.path.lastIndexOf("/") + 1);
}

// --- the connection ---------------------------------------------------------

function connect() {
  socket?.close();
  isLive = false;
  operations.clear();
  socket = new Socket(place.namespace, {
    live() {
      isLive = true;
      document.body.classList.remove("away");
      at("status").textContent = "live";
      operations.clear();
      asked = "";
      show();
    },
    away() {
      isLive = false;
      document.body.classList.add("away");
      at("status").textContent = "away, trying again";
    },
    push({ a: action, b: state }) {
      if (action === "inspect") receive(state);
    },
  });
}

/** Tell the emulator what is open, if that is new. */
function show() {
  const windows = JSON.stringify(tree.windows());
  if (!isLive || windows === asked) return;
  asked = windows;
  request(`{"show":${windows}}`);
}

function request(body) {
  socket.request("inspect", body).catch((error) => {
    // Without an answer it is asked again by the next connection.
    if (error instanceof Refusal) hint(error.message);
  });
}

function receive({ state, namespace, databases, windows, operations: newest }) {
  if (databases) named(namespace, databases);
  if (windows) {
    tree.update(windows);
    select();
  }
  if (newest) operations.add(newest);
  request(`{"seen":${state}}`);
}

function named(namespace, databases) {
  database = namespace;
  document.title = `${namespace} · rtdb-emulator`;
  at("coverage").href = `/.inspect/coverage?ns=${encodeURIComponent(namespace)}`;
  const names = [...new Set([...databases, namespace])].sort();
  at("database").replaceChildren(...names.map((name) => new Option(name, name, false, name === namespace)));
  if (place.path === "/") tree.root.name.replaceChildren(foreign(namespace));
}

// --- the toolbar ------------------------------------------------------------

function path() {
  return tree.selected.path;
}

function select() {
  const keys = path().split("/").filter(Boolean);
  const crumbs = [crumb("/", "/")];
  keys.forEach((key, index) => {
    if (index) crumbs.push(element("span", "slash", "/"));
    crumbs.push(crumb(key, `/${keys.slice(0, index + 1).join("/")}`));
  });
  at("crumbs").replaceChildren(...crumbs);
  const isNothing = tree.root.line?.value === null;
  hint(isNothing ? (place.path === "/" ? "This database is empty." : "There is nothing at this path.") : "");
}

function hint(text) {
  at("hint").hidden = !text;
  at("hint").replaceChildren(foreign(text));
}

function crumb(text, to) {
  const link = element("a", "", foreign(text));
  link.href = hrefOf({ path: to });
  link.dataset.path = to;
  return link;
}

async function attempt(act) {
  try {
    await act();
  } catch (error) {
    hint(error.message);
  }
}

async function copy() {
  const button = at("copy");
  try {
    await navigator.clipboard.writeText(path());
  } catch {
    // Not on a page that came over the network without TLS; there a selection can be copied.
    getSelection().selectAllChildren(at("crumbs"));
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy path"), 1200);
}

function remove() {
  const { line } = tree.selected;
  editor.remove(path(), line && "count" in line ? `with ${counted(line.count)}` : "");
}

// --- what people do ---------------------------------------------------------

at("copy").addEventListener("click", copy);
at("edit").addEventListener("click", () => attempt(() => editor.edit(path())));
at("add").addEventListener("click", () => attempt(() => editor.add(path())));
at("delete").addEventListener("click", remove);
at("database").addEventListener("change", ({ target }) => go({ namespace: target.value, path: "/" }));
at("view").addEventListener("change", ({ target }) => {
  go(target.value === "cron-locks" ? { path: LOCKS, isConsole: true } : { isConsole: target.value === "console" });
});
for (const button of document.querySelectorAll("#panes button")) {
  button.addEventListener("click", () => {
    document.body.dataset.pane = button.dataset.pane;
    for (const other of document.querySelectorAll("#panes button")) other.setAttribute("aria-pressed", String(other === button));
  });
}
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-path]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go({ path: link.dataset.path });
});
addEventListener("popstate", arrive);
addEventListener("online", () => socket.hurry());
document.addEventListener("visibilitychange", () => document.hidden || socket.hurry());

arrive();
