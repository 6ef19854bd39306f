// What the server tells the page, as the scripts read it: the types for `tsc --checkJs`.

type Instant = string;

interface LockView {
  name: string;
  state: "absent" | "malformed" | "held" | "minimum_hold" | "free" | "died" | "unlocked";
  kind?: string;
  instanceId?: string;
  instance?: string;
  since: Instant;
  until: Instant;
  released?: Instant;
  slot?: Instant;
  unfinished?: Instant;
  attempt: number;
  fence?: number;
  outcome?: string;
  paused?: boolean;
  pausedBy?: string;
  pausedWhy?: string;
  pausedUntil?: Instant;
  cancelled?: boolean;
  cancelWhy?: string;
  problem?: string;
  remedy?: Remedy;
  acts: string[];
}

/** What to do: the act, if a button does it, and the tick that it is about, if it is about one. */
interface Remedy {
  act?: string;
  words: string;
  tick?: string;
}

interface Last {
  key?: string;
  outcome: string;
  fence?: number;
  instanceId?: string;
  instance?: string;
  slot?: Instant;
  started?: Instant;
  ended?: Instant;
  durationMs?: number;
  count: number;
  note?: string;
  error?: string;
}

interface Ask {
  id: string;
  at: Instant;
  by: string;
  why?: string;
  tick?: string | null;
  taken: boolean;
}

/** What an operator holds. Without `stands` it was taken back, and pauses locks nevertheless. */
interface Hold {
  hold: string;
  by: string;
  until: Instant;
  why?: string | null;
  what: string;
  stands: boolean;
  held: number;
  notHeld: string[];
}

interface Job {
  job: string;
  verdict: string;
  why: string;
  warning?: boolean | string;
  since?: Instant;
  due?: Instant;
  failures: number;
  line?: string;
  words?: string;
  every?: number;
  timezone?: string;
  service?: string;
  where?: string;
  description?: string;
  owner?: string;
  runbook?: string;
  next?: Instant;
  nextKey?: string | null;
  last?: Last;
  lock?: LockView;
  remedy?: Remedy;
  /** Nobody is told of it, until then. */
  muted?: { until: Instant; by: string; why?: string | null };
  /** What an operator has asked for. */
  ask?: Ask;
  /** What is offered, the primary act first. */
  acts: string[];
  /** What is stored, of an entry of a stored job. */
  entry?: { key: string; state: string; by?: string };
}

/** A tick of a strip. Without an outcome it did not run, and `why` says why. */
interface Tick {
  slot: Instant;
  outcome: string | null;
  durationMs: number;
  why?: string | null;
  /** Why it did not run, in a word; none if it ran. */
  hole?: string | null;
}

interface Step {
  name: string;
  state: string;
  started?: Instant;
  done?: Instant;
}

interface Run {
  key: string;
  outcome: string;
  slot?: Instant;
  started?: Instant;
  durationMs?: number | null;
  trigger?: string;
  attempt: number;
  count: number;
  atLeast?: boolean;
  error?: string;
  note?: string;
  recordedBy?: string;
  instanceId?: string;
  instance?: string;
  logs: string | null;
  steps: Step[];
}

/** The run that is under way. */
interface Running {
  key: string | null;
  slot?: Instant;
  started: Instant;
  attempt?: number;
  instanceId?: string;
  instance?: string;
  logs: string | null;
  steps: Step[];
}

/** A row of the list of runs: a run, ticks that did not run, or runs that are folded. `from` and `to` are slots. */
interface Item {
  key: string;
  from: string;
  to: string;
  run?: Run;
  times?: number;
  since?: Instant;
  hole?: string | null;
  why?: string | null;
  count?: number;
  between?: Item[];
}

/** All that is told of one job. */
interface Detail {
  now: Instant;
  job: Job | null;
  /** Whether it runs by stored schedules. */
  stored: boolean;
  lock: LockView | null;
  options: Record<string, unknown> | null;
  /** The names of the options that have their default. */
  defaults: string[];
  next: { slot: Instant; note?: string }[];
  running: Running | null;
  runs: Run[] | null;
  node: unknown;
  /** Of a late job, those that would run it. */
  instances: { instance: string; instanceId?: string; startedAt: Instant; seenAt: Instant; logs?: string }[] | null;
  runnable: boolean;
  resumable: boolean;
  why_not_runnable: string | null;
  problems: Record<string, string>;
}

interface Facts {
  now: Instant;
  jobs: Job[];
  gone?: string[];
  leaders?: LockView[];
  locks?: LockView[];
}

/** What a window hears, and tells the others: the facts, or why there are none. */
interface Told {
  facts?: Facts;
  isEverything?: boolean;
  trouble?: string;
}

interface Known {
  jobs: Map<string, Job>;
  entries: Map<string, Job>;
  leaders: LockView[];
  locks: LockView[];
  holds: Hold[];
  visitor: { who?: string; canAct?: boolean };
  readOnly?: boolean;
  database: string;
  heard?: Instant;
  trouble?: string;
  etag?: string | null;
  /** How often it asks, in milliseconds; 0 for a stream. */
  every?: number;
  /** The job whose node is to be shown, until it is. */
  mend?: string;
}

/** A job on the timeline. `start` and `end` are milliseconds; a run that goes on has no end. */
interface Past {
  since: number | null;
  keptFrom: number;
  runs: { start: number; end: number | null; outcome: string; why: string | null }[];
  holes: { hole: string; why: string | null; first: Instant; last: Instant; count: number; isMore: boolean }[];
  next: Instant[];
}

interface Timeline {
  from: Instant;
  now: Instant;
  until: Instant;
  rows: Record<string, Past | null>;
  marks: Record<string, { what: string; at: Instant; owner: string }[]>;
}

interface View {
  title?: string;
  file?(again: string): Promise<{ VIEWS: Record<string, View> }>;
  show?(): void;
  load?(): Promise<void>;
  open?(job: any): void;
  tick?(): void;
  linkOf?(job: string | null | undefined): HTMLElement | undefined;
}
