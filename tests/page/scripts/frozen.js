// A clock that stands still: at 12:00 UTC on 18 November 2026, in New York.

import { setClock, setZone } from "./time.js";

setZone("America/New_York");
performance.now = () => 0;
setClock("2026-11-18T12:00:00Z");
