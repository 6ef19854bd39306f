// Times in words. The clock is the server's; this window's may be wrong. Pure, but for that clock.

// How far the server's clock is ahead of this window's, which nobody can set.
let ahead = Date.now() - performance.now();

export const now = () => performance.now() + ahead;

/** Go by what the server says. Its texts have whole seconds: what agrees with them is left as it is. */
export function setClock(/** @type {string} */ text) {
  const off = now() - Date.parse(text);
  if (off < 0 || off > 1_500) ahead -= off;
}

/** @type {[string, number][]} */
const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];

/** "1 min 12 s", or "1 min": as many units as are asked for, and no zeros. */
export function span(/** @type {number} */ ms, units = 2) {
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const parts = UNITS.slice(first, first + units).map(([unit, size], index) => {
    const count = Math.floor((index ? ms % UNITS[first][1] : ms) / size);
    return count && `${count} ${unit}`;
  });
  return first < 0 ? "0 s" : parts.filter(Boolean).join(" ");
}

export function took(/** @type {number | null | undefined} */ ms) {
  if (ms == null) return "";
  if (ms < 1_000) return `${ms} ms`;
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : span(ms);
}

/** How long ago this was, in ms. */
export const since = (/** @type {string} */ text) => now() - Date.parse(text);

export const ago = (/** @type {string} */ text) => `${span(since(text), 1)} ago`;

export function countdown(/** @type {string} */ text) {
  const left = -since(text);
  return left < 0 ? "due" : left < 1_000 ? "now" : `in ${span(left)}`;
}

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const PARTS = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };
/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();
let zone = HERE;

/** The zone that times are shown in. */
export const shownZone = () => zone;

/** Show times in this zone; in the reader's, if it is none that the browser knows. */
export function setZone(/** @type {string | null | undefined} */ name) {
  zone = name || HERE;
  if (formats.has(zone)) return;
  try {
    formats.set(zone, new Intl.DateTimeFormat("en-GB", /** @type {object} */ ({ ...PARTS, hourCycle: "h23", timeZone: zone })));
  } catch {
    setZone(HERE);
  }
}
setZone(HERE);

/** Do this with times in another zone. */
export function inZone(/** @type {string | null | undefined} */ name, /** @type {() => void} */ act) {
  const before = zone;
  setZone(name);
  act();
  zone = before;
}

/** "New York" from `America/New_York`. */
export const placeOf = (name = zone) => name.replace(/^.*\//, "").replaceAll("_", " ");

const partsOf = (at) => Object.fromEntries((formats.get(zone) ?? new Intl.DateTimeFormat()).formatToParts(at).map(({ type, value }) => [type, value]));

/** The hour, the minute and the day of the week in the zone that is shown. */
export const clockOf = (/** @type {number} */ at) => partsOf(at);

/** An instant in the zone that is shown, as short as it can be without a doubt. */
export function local(/** @type {string} */ text) {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return text ?? "an unknown time";
  const [parts, today] = [partsOf(at), partsOf(now())];
  const time = `${parts.hour}:${parts.minute}${parts.second === "00" ? "" : `:${parts.second}`}`;
  const [date, days] = [`${parts.day} ${parts.month}`, Math.abs(at - now()) / 86_400_000];
  if (date === `${today.day} ${today.month}` && days < 2) return time;
  return `${days < 6 ? parts.weekday : days < 300 ? date : `${date} ${parts.year}`} ${time}`;
}

/** A sentence of the server's, with its instants in that zone. */
export const localized = (/** @type {string | null | undefined} */ text) => text?.replace(/\b\d{4}-\d\d-\d\dT[\d:]{8}Z/g, local);

export const utc = (/** @type {string} */ text) => text.replace("T", " ").replace("Z", " UTC");
