// What is asked of the server, and what is said where it does not reply.

import { known } from "./known.js";

// In milliseconds.
const PATIENCE = 20_000;

export async function reply(/** @type {Response} */ response) {
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  throw Object.assign(new Error(body?.message ?? `${response.status} ${response.statusText}`), { status: response.status });
}

const fetched = (/** @type {string} */ path, headers = {}) => fetch(path, { headers, signal: AbortSignal.timeout(PATIENCE) });

export const get = async (/** @type {string} */ path) => reply(await fetched(path));

/** Everything, or null if it is as it was at the last call. */
export async function getJobs() {
  const response = await fetched("api/jobs", known.etag ? { "If-None-Match": known.etag } : {});
  if (response.status === 304) return null;
  const facts = await reply(response);
  known.etag = response.headers.get("ETag");
  return facts;
}

export function described(/** @type {{ status?: number, message: string }} */ { status, message }) {
  if (status === 503) return awayBecause(message);
  if (status) return `The page's server says: ${message}.${status < 404 ? " Reload the page to sign in again." : ""}`;
  return navigator.onLine ? "The page's server does not reply." : "This browser is offline.";
}

export const awayBecause = (/** @type {string} */ message) => `The database is away: ${message.replace(/\.$/, "")}.`;
