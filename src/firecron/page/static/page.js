// The page: what the server tells, as rows. Each view has a file of its own, which is loaded when it is opened.

import { find, on, put } from "./dom.js";
import { known } from "./known.js";
import { attend } from "./live.js";
import { ago } from "./time.js";
import { refreshView, route, showDetail, view, VIEWS } from "./views.js";

const tables = (/** @type {string} */ again) => import(`./tables.js${again}`);
Object.assign(VIEWS, {
  jobs: { file: (again) => import(`./overview.js${again}`) },
  job: { file: (again) => import(`./job.js${again}`) },
  instances: { title: "Instances", file: tables },
  locks: { title: "Leaders and locks", file: tables },
  acts: { title: "Acts", file: tables },
  timeline: { title: "Timeline", file: (again) => import(`./timeline.js${again}`) },
});

setInterval(() => {
  if (document.hidden) return;
  if (known.heard) VIEWS[view.kind]?.tick?.();
  for (const one of find("[data-ago]")) put(one, ago(one.dataset.ago));
  showDetail();
}, 1_000);
setInterval(() => view.kind === "instances" && refreshView(), 15_000);
setInterval(() => view.asks && refreshView(), 5_000);

history.scrollRestoration = "manual";
on(window, "hashchange", route);
route();
attend();
