import { onChildAdded, onChildMoved, onChildRemoved, onValue, push, query, ref } from "firebase/database";
import { limitToFirst, limitToLast, orderByChild, orderByKey, orderByValue } from "firebase/database";
import { remove, runTransaction, set, update } from "firebase/database";
import { Record } from "../scene.mjs";

const orders = { orderByChild: () => orderByChild("n"), orderByKey, orderByValue };
const limits = { limitToFirst, limitToLast };

/** A query that is listened to in both ways: the keys of the last whole value, and those that the children left. */
class Window {
  whole = [];
  children = [];

  constructor(database, { path, order, limit, number }) {
    this.query = query(ref(database, path), orders[order](), limits[limit](number));
    this.ends = [
      onValue(this.query, (snapshot) => (this.whole = keysOf(snapshot))),
      onChildAdded(this.query, (child, before) => this.put(child.key, before)),
      onChildMoved(this.query, (child, before) => (this.take(child.key), this.put(child.key, before))),
      onChildRemoved(this.query, (child) => this.take(child.key)),
    ];
  }

  put(key, before) {
    this.children.splice(before === null ? 0 : this.children.indexOf(before) + 1, 0, key);
  }

  take(key) {
    this.children.splice(this.children.indexOf(key), 1);
  }

  close() {
    for (const end of this.ends) end();
  }
}

class Client {
  windows = new Map();
  markers = new Record();

  /** Windows are on a connection of their own: beside a listener of the whole the SDK would not ask the server. */
  constructor(database, watching) {
    this.database = database;
    this.watching = watching;
    onValue(ref(database, "walk"), (snapshot) => (this.seen = snapshot.exportVal()));
    for (const each of [database, watching]) {
      onValue(ref(each, "marker"), (snapshot) => this.markers.add(snapshot.val()));
    }
  }

  /** Begin an operation; returns the promise of what it came to. */
  begin({ does, path, value, window }) {
    const place = path === undefined ? null : ref(this.database, path);
    switch (does) {
      case "set":
        return set(place, value);
      case "update":
        return update(place, value);
      case "remove":
        return remove(place);
      case "push": {
        const made = push(place, value);
        return made.then(() => made.key);
      }
      case "count":
        return runTransaction(place, (now) => (typeof now === "number" ? now + 1 : 1)).then((end) => end.committed);
      case "open":
        return void this.windows.set(window.name, new Window(this.watching, window));
      case "close":
        this.windows.get(window.name).close();
        return void this.windows.delete(window.name);
      default:
        throw new Error(`nothing does ${does}`);
    }
  }

  /** What this client sees, once it has heard of the marker, and so of all that was written before. */
  async view(marker) {
    await this.markers.until((all) => all.filter((one) => one === marker).length === 2, `marker ${marker} twice`);
    const windows = {};
    for (const [name, { whole, children }] of this.windows) windows[name] = { whole, children };
    return { seen: this.seen ?? null, windows };
  }
}

const keysOf = (snapshot) => {
  const keys = [];
  snapshot.forEach((child) => void keys.push(child.key));
  return keys;
};

/** Each line told is `{"begin": [its operations for each client]}`, all of which begin at once; `{"marker": n}`, or null. */
export async function play(scene, { clients: number }) {
  const clients = Array.from({ length: number }, () => new Client(scene.client(), scene.client()));
  for (let told = await scene.told(); told !== null; told = await scene.told()) {
    if (told.begin) {
      const begun = clients.map((client, at) => told.begin[at].map((operation) => client.begin(operation)));
      scene.report(await Promise.all(begun.map((promises) => Promise.all(promises))));
    } else {
      await scene.rest("PUT", "/marker", told.marker);
      scene.report(await Promise.all(clients.map((client) => client.view(told.marker))));
    }
  }
}
