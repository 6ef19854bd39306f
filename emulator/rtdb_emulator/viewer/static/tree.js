// The tree: a row a node, a window of rows for each node that is open, and what the keyboard does.

import { counted, digestOf, element, foreign, plain, valueOf } from "./text.js";

let lastId = 0;

/** One row, and below it, while the node is open, a window of its children. */
class Item {
  constructor(tree, parent, key) {
    this.tree = tree;
    this.parent = parent;
    this.key = key;
    this.path = parent ? `${parent.path === "/" ? "" : parent.path}/${key}` : tree.base;
    this.line = null;
    this.start = null;
    this.data = null;
    this.items = new Map();
    this.digest = "";
    this.wasOpen = false;

    this.twisty = element("span", "twisty");
    this.twisty.setAttribute("aria-hidden", "true");
    this.name = element("span", "key", parent ? foreign(key) : foreign(tree.label));
    this.value = element("span", "value");
    this.row = element("div", "row", this.twisty, this.name, this.value);
    this.row.id = `row-${++lastId}`;
    this.li = element("li", "", this.row);
    this.li.setAttribute("role", "treeitem");
    this.li.setAttribute("aria-labelledby", this.row.id);
    this.li.setAttribute("aria-level", String(parent ? Number(parent.li.getAttribute("aria-level")) + 1 : 1));
    this.li.setAttribute("aria-selected", "false");
    this.li.tabIndex = -1;
    this.li.item = this;
  }

  get isOpen() {
    return this.tree.open.has(this.path);
  }

  get isObject() {
    return this.line !== null && "count" in this.line;
  }

  /** Draw the node's own row, if it says something else than before. */
  draw(line) {
    this.line = line;
    const digest = digestOf(line);
    if (digest !== this.digest || this.isOpen !== this.wasOpen) {
      this.value.replaceChildren(...valueOf(line, this.tree.isConsole, this.isOpen));
      this.row.title = typeof line.value === "string" ? plain(line.value) : "";
      if (this.digest && digest !== this.digest) flash(this.row);
      this.digest = digest;
      this.wasOpen = this.isOpen;
    }
    if (this.isObject) this.li.setAttribute("aria-expanded", String(this.isOpen));
    else this.li.removeAttribute("aria-expanded");
    if (!this.isObject || !this.isOpen) this.drop();
  }

  /** Draw the window of the children. Rows that stay are the same elements: focus, and what is open in them, stay too. */
  fill(data) {
    this.data = data;
    if (!this.isObject || !this.isOpen) return;
    if (!this.list) {
      this.list = element("ul", "");
      this.list.setAttribute("role", "group");
      this.li.append(this.list);
    }
    const keys = new Set(data.rows.map(({ key }) => key));
    for (const [key, item] of this.items) {
      if (!keys.has(key)) {
        item.remove();
        this.items.delete(key);
      }
    }
    let place = this.list.firstElementChild;
    for (const line of data.rows) {
      let item = this.items.get(line.key);
      if (!item) {
        item = new Item(this.tree, this, line.key);
        this.items.set(line.key, item);
      }
      if (item.li === place) place = place.nextElementSibling;
      else this.list.insertBefore(item.li, place);
      item.draw(line);
    }
    this.page();
  }

  /** The line that leads to the windows beside this one. */
  page() {
    const { first, rows, count, previous, next, last } = this.data;
    const isWhole = first === 0 && next === null;
    if (isWhole !== !this.pager) {
      this.pager?.remove();
      this.pager = isWhole ? null : this.makePager();
      if (this.pager) this.row.after(this.pager);
    }
    if (!this.pager) return;
    const [start, back, where, forth, end] = this.pager.children;
    where.textContent = rows.length
      ? `${(first + 1).toLocaleString("en")} to ${(first + rows.length).toLocaleString("en")} of ${count.toLocaleString("en")}`
      : `none of ${counted(count)} comes after this key`;
    for (const [button, to, there] of [[start, null, first > 0], [back, previous, first > 0], [forth, next, next], [end, last, next]]) {
      button.disabled = !there;
      button.dataset.to = JSON.stringify(to);
    }
  }

  makePager() {
    const step = (text, title) => {
      const button = element("button", "step", text);
      button.type = "button";
      button.title = title;
      button.setAttribute("aria-label", title);
      button.addEventListener("click", () => this.go(JSON.parse(button.dataset.to)));
      return button;
    };
    const from = element("input", "from");
    from.placeholder = "key…";
    from.title = "Show the children from this key on (Enter)";
    from.setAttribute("aria-label", from.title);
    from.spellcheck = false;
    from.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") this.go(from.value || null);
    });
    const where = element("span", "where");
    where.setAttribute("aria-live", "polite");
    return element(
      "div", "pager",
      step("«", "First children"), step("‹", "Previous children"), where, step("›", "Next children"), step("»", "Last children"), from,
    );
  }

  go(start) {
    this.start = start;
    this.tree.changed();
  }

  /** Take the children away. */
  drop() {
    for (const item of this.items.values()) item.remove();
    this.items.clear();
    this.list?.remove();
    this.pager?.remove();
    this.list = this.pager = this.data = null;
  }

  remove() {
    const had = this.tree.selected === this || this.tree.isBelow(this.tree.selected, this);
    const focused = this.li.contains(document.activeElement);
    this.drop();
    this.li.remove();
    if (had) this.tree.select(this.parent, focused);
  }
}

function flash(row) {
  row.classList.remove("changed");
  void row.offsetWidth; // begins the animation anew
  row.classList.add("changed");
}

export class Tree {
  /** `on.show()` is called when other windows are open, `on.select()` when another node is selected. */
  constructor(on) {
    this.on = on;
    this.element = document.getElementById("tree");
    this.element.addEventListener("click", (event) => this.clicked(event));
    this.element.addEventListener("dblclick", (event) => this.toggled(event));
    this.element.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** Show another node as the root; with `isConsole` as the Firebase console shows it. */
  reset(base, label, isConsole) {
    this.base = base;
    this.label = label;
    this.isConsole = isConsole;
    this.open = new Set([base]);
    this.root = new Item(this, null, null);
    this.selected = null;
    this.element.replaceChildren(this.root.li);
    this.element.classList.toggle("console", isConsole);
    this.select(this.root, false);
    this.changed();
  }

  /** The windows that are open, by their paths. */
  windows() {
    const shown = {};
    const visit = (item) => {
      if (!this.open.has(item.path)) return;
      shown[item.path] = { path: item.path, start: item.start };
      for (const child of item.items.values()) visit(child);
    };
    visit(this.root);
    return shown;
  }

  update(windows) {
    // What is above first: it may take away what is below.
    for (const path of Object.keys(windows).sort((one, other) => one.length - other.length)) {
      const item = this.find(path);
      if (!item) continue;
      if (item === this.root) item.draw(windows[path]);
      else if (!("count" in windows[path])) continue; // its parent's window says what it is now
      if (item.isObject) item.fill(windows[path]);
    }
    this.changed();
  }

  changed() {
    this.on.show();
  }

  find(path) {
    if (path === this.base) return this.root;
    if (!path.startsWith(this.base)) return undefined; // of a root that was shown before
    let item = this.root;
    const below = this.base === "/" ? path.slice(1) : path.slice(this.base.length + 1);
    for (const key of below.split("/")) item = item?.items.get(key);
    return item;
  }

  isBelow(item, ancestor) {
    for (let above = item?.parent; above; above = above.parent) if (above === ancestor) return true;
    return false;
  }

  select(item, focus) {
    if (this.selected !== item) {
      this.selected?.li.setAttribute("aria-selected", "false");
      if (this.selected) this.selected.li.tabIndex = -1;
      this.selected = item;
      item.li.setAttribute("aria-selected", "true");
      item.li.tabIndex = 0;
      this.on.select();
    }
    if (focus) {
      item.li.focus({ preventScroll: true });
      item.row.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  toggle(item, isOpen = !item.isOpen) {
    if (!item.isObject || isOpen === item.isOpen) return;
    if (isOpen) this.open.add(item.path);
    else if (item !== this.root) this.open.delete(item.path);
    item.draw(item.line);
    if (isOpen || item !== this.root) this.changed();
  }

  clicked(event) {
    const item = event.target.closest(".row")?.parentElement.item;
    if (!item) return;
    this.select(item, true);
    if (event.target.closest(".twisty")) this.toggle(item);
  }

  toggled(event) {
    const item = event.target.closest(".row")?.parentElement.item;
    if (item && !event.target.closest(".twisty")) this.act(item);
  }

  /** Enter, or a double click: open an object, edit a value. */
  act(item) {
    if (item.isObject) this.toggle(item);
    else this.on.edit();
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.matches("[role=treeitem]")) return;
    const item = this.selected;
    const moves = {
      ArrowDown: () => this.beside(1),
      ArrowUp: () => this.beside(-1),
      Home: () => this.root,
      End: () => this.rows().at(-1)?.item,
      ArrowRight: () => {
        if (!item.isObject || !item.isOpen) this.toggle(item, true);
        else return this.beside(1);
      },
      ArrowLeft: () => {
        if (item.isOpen && item.isObject && item !== this.root) this.toggle(item, false);
        else return item.parent;
      },
    };
    const acts = { Enter: () => this.act(item), e: this.on.edit, a: this.on.add, c: this.on.copy, Delete: this.on.remove };
    const move = moves[event.key], act = acts[event.key];
    if (!move && !act) return;
    event.preventDefault();
    const next = (move ?? act)();
    if (move && next) this.select(next, true);
  }

  rows() {
    return [...this.element.querySelectorAll("[role=treeitem]")];
  }

  beside(step) {
    const rows = this.rows();
    return rows[rows.indexOf(this.selected.li) + step]?.item;
  }
}
