// Values as text. Everything that comes from a database ends here, as text nodes: no markup is ever made of it.

// What would be invisible, or would reorder what stands around it: control characters, marks of direction, what has no width.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/;
const CONSOLE_CUTS_AT = 24;
// Milliseconds from 2001 to 2100: what else is such a number?
const FIRST_INSTANT = 1e12, LAST_INSTANT = 4.1e12;

/** An element with a class, holding texts and elements. */
export function element(name, className, ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

/** A text from a database: isolated, so that its direction changes nothing around it, its hidden characters spelled out. */
export function foreign(text) {
  const shown = element("bdi");
  for (const part of text.split(new RegExp(`(${HIDDEN.source})`))) {
    if (HIDDEN.test(part)) shown.append(element("span", "hidden", escaped(part)));
    else if (part) shown.append(part);
  }
  return shown;
}

/** A text of several lines from a database, each of which is as in `foreign`. */
export function lines(text) {
  return text.split("\n").flatMap((line, index) => (index ? ["\n", foreign(line)] : [foreign(line)]));
}

/** A text from a database for a place that takes only plain text, such as a title. */
export function plain(text) {
  return text.replace(new RegExp(HIDDEN.source, "g"), escaped);
}

function escaped(character) {
  const named = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
  return named ?? `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`;
}

/** What a row says of a node, to the right of its key. */
export function valueOf(line, isConsole, isOpen) {
  if ("count" in line) return isConsole ? [] : [isOpen ? element("span", "note", counted(line.count)) : contents(line), ...priority(line)];
  if (line.value === null) return [element("span", "note", "null")];
  if (typeof line.value === "string") return [quoted(line, isConsole), ...(isConsole ? [] : [...length(line), ...priority(line)])];
  const number = element("span", "literal", line.exactly ?? String(line.value));
  return isConsole ? [number] : [number, ...instant(line.value), ...priority(line)];
}

/** The same as plain text: what has to be different for a row to be drawn anew. */
export function digestOf(line) {
  return JSON.stringify([line.value, line.exactly, line.length, line.priority, line.count, line.peek]);
}

export function timeOf(milliseconds) {
  return new Date(milliseconds).toISOString().replace("T", " ");
}

function quoted(line, isConsole) {
  const text = isConsole && line.value.length >= CONSOLE_CUTS_AT ? `${line.value.slice(0, CONSOLE_CUTS_AT - 1)}…` : line.value;
  return element("span", "string", "\u201c", foreign(text), "\u201d");
}

function contents(line) {
  const note = element("span", "note peek");
  const rest = line.count - line.peek.length;
  line.peek.forEach(([key, value], index) => {
    note.append(index ? ", " : "", foreign(key), " ", element("span", "of", foreign(String(value))));
  });
  if (rest) note.append(line.peek.length ? ` +${rest.toLocaleString("en")}` : counted(line.count));
  return note;
}

function length(line) {
  return line.length ? [element("span", "note", `${line.length.toLocaleString("en")} characters`)] : [];
}

function instant(value) {
  const isInstant = Number.isInteger(value) && value >= FIRST_INSTANT && value < LAST_INSTANT;
  return isInstant ? [element("span", "note", timeOf(value))] : [];
}

function priority(line) {
  return "priority" in line ? [element("span", "note", "priority ", foreign(String(line.priority)))] : [];
}

export function counted(count) {
  return count === 1 ? "1 child" : `${count.toLocaleString("en")} children`;
}
