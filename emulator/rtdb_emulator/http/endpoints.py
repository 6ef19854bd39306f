"""The endpoints beside the data: rules, their coverage, the list of databases, and those that the Firebase CLI needs.

Tests in any language script the emulator's faults here, and set its clock:

    POST   /.inspect/faults.json   {"fault": "delay", "seconds": 2, "method": "PUT", "path": "/visits"}  → {"id": "1"}
    GET    /.inspect/faults.json   those that were added here and not removed, and how many requests each was applied to
    DELETE /.inspect/faults.json   removes all of them, or with ?id=1 that one (a removed hold releases its requests)
    GET    /.inspect/clock.json    {"now": 1700000000000}
    PUT    /.inspect/clock.json    {"now": 1700000000000}, or {"advance": 60000}

The names of faults and their parameters are those of `Faults`; the names of sockets' faults begin with "sockets.". Only
an admin may script faults or set the clock, and no fault applies to these two endpoints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate, count
from types import NoneType
from typing import TypeAlias, cast
from urllib.parse import quote

from rtdb_emulator.clock import Clock
from rtdb_emulator.database import Access
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.http.faults import Fault, Faults, Hold
from rtdb_emulator.http.messages import HTML, Reply, RestRequest, error_reply
from rtdb_emulator.jsondata import decode, encode
from rtdb_emulator.rules import Rules, RulesError
from rtdb_emulator.rules.coverage import Row, percent
from rtdb_emulator.rules.syntax import show
from rtdb_emulator.store import Store

_Endpoint: TypeAlias = Callable[[str, RestRequest, Access, str], Reply]

_OK = encode({"status": "ok"})
_FAULTS = (
    *("drop_request", "drop_reply", "delay", "hold", "drip", "answer", "garbage", "rules_first", "cut_off"),
    *("sockets.swallow", "sockets.answer_first", "sockets.stale", "sockets.reset", "sockets.expire", "sockets.cut"),
    *("sockets.freeze", "sockets.skew"),
)

# The types of the faults' parameters; the others are texts.
_FORMS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("nth", "port", "status"), (int,)),
    "times": (int, NoneType),
    "seconds": (int, float),
    "applied": (bool,),
    "header": (list,),
    "headers": (dict,),
}
_MOMENTS = ("before", "after")
# A push id has eight characters for the time.
_LAST_INSTANT = 64**8 - 1


class Endpoints:
    """These endpoints of one emulator, by their paths. Those in `scripts` are no requests to a database."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults
        self._numbers = count(1)
        self._added: dict[str, tuple[Fault, Mapping[str, object]]] = {}
        self.scripts: Mapping[str, _Endpoint] = {
            ".inspect/faults.json": self._script,
            ".inspect/clock.json": self._set_clock,
        }
        self.all: Mapping[str, _Endpoint] = {
            **self.scripts,
            ".settings/rules.json": self._rules,
            ".settings/functionTriggers.json": self._function_triggers,
            ".inspect/databases.json": self._databases,
            ".inspect/coverage.json": self._coverage,
            ".inspect/coverage": self._coverage,
        }

    def _rules(self, method: str, request: RestRequest, access: Access, namespace: str) -> Reply:
        _only_admin(access)
        database = self._store.database(namespace)
        if method == "GET":
            if request.parameters.get("format") == "strict":
                return Reply(200, encode(database.rules.as_json()))
            return Reply(200, database.rules.source.encode())
        if method != "PUT":
            return error_reply(405, f"{method} is not one of GET, PUT")
        try:
            rules = Rules.parse(request.body.decode())
        except UnicodeDecodeError:
            raise BadRequest("1:1: The rules are not UTF-8.\n") from None
        except RulesError as error:
            # The error may quote half of a surrogate pair, which isn't a character.
            raise BadRequest(f"{error}\n".encode(errors="replace").decode()) from None
        try:
            encode(rules.as_json())
        except UnicodeEncodeError:
            raise BadRequest("1:1: A string has half of a surrogate pair, which isn't a character.\n") from None
        if request.parameters.get("dryRun") != "true":
            database.set_rules(rules)
        return Reply(200, _OK)

    def _databases(self, method: str, request: RestRequest, access: Access, namespace: str) -> Reply:
        return Reply(200, encode([{"name": name} for name in self._store.names()]))

    def _function_triggers(self, method: str, request: RestRequest, access: Access, namespace: str) -> Reply:
        _only_admin(access)
        functions = self._store.functions
        if method == "GET":
            return Reply(200, encode(functions.as_json()))
        if method not in ("POST", "PUT"):
            return error_reply(405, f"{method} is not one of GET, POST, PUT")
        functions.register(decode(request.body), request.parameters.get("ns"), anew=method == "PUT")
        return Reply(200, _OK)

    def _coverage(self, method: str, request: RestRequest, access: Access, namespace: str) -> Reply:
        if method not in ("GET", "HEAD"):
            return error_reply(405, f"{method} is not GET")
        database = self._store.database(namespace)
        rows = database.coverage.rows
        if request.path.endswith(".json"):
            return Reply(200, encode({"percent": round(percent(rows), 1), "rules": [row.as_json() for row in rows]}))
        return Reply(200, _coverage_page(namespace, database.rules, rows).encode(errors="replace"), content_type=HTML)

    def _script(self, method: str, request: RestRequest, access: Access, namespace: str) -> Reply:
        _only_admin(access)
        # A test in this process may have removed some.
        self._added = {number: added for number, added in self._added.items() if added[0] in self._faults}
        wanted = request.parameters.get("id")
        if wanted is not None and wanted not in self._added:
            return error_reply(404, f"there is no fault {wanted!r}")
        match method:
            case "GET":
                return Reply(200, encode([self._shown(number) for number in self._added]))
            case "POST":
                return Reply(200, encode({"id": self._add(_object(request))}))
            case "DELETE":
                for number in [wanted] if wanted is not None else [*self._added]:
                    self._added.pop(number)[0].remove()
                return Reply(200, encode(None))
        return error_reply(405, f"{method} is not one of GET, POST, DELETE")

    def _shown(self, number: str) -> dict[str, object]:
        fault, asked = self._added[number]
        held = {"held": fault.has_reached} if isinstance(fault, Hold) else {}
        return {"id": number, **asked, "hits": fault.hits, **held}

    def _add(self, asked: Mapping[str, object]) -> str:
        words = dict(asked)
        name = words.pop("fault", None)
        if name not in _FAULTS:
            raise BadRequest(f"fault must be one of {', '.join(_FAULTS)}, not {name!r}")
        _check(words)
        if isinstance(words.get("header"), list):
            words["header"] = tuple(cast(list[str], words["header"]))
        if isinstance(words.get("body"), str):
            words["body"] = str(words["body"]).encode()
        made: object = self._faults
        for part in str(name).split("."):
            made = getattr(made, part)
        try:
            fault = cast(Callable[..., Fault], made)(**words)
        except (TypeError, ValueError) as error:
            raise BadRequest(str(error)) from None
        number = str(next(self._numbers))
        self._added[number] = fault, asked
        return number

    def _set_clock(self, method: str, request: RestRequest, access: Access, namespace: str) -> Reply:
        if method == "PUT":
            _only_admin(access)
            self._turn(_object(request))
        elif method != "GET":
            return error_reply(405, f"{method} is not one of GET, PUT")
        return Reply(200, encode({"now": self._store.now()}))

    def _turn(self, asked: Mapping[str, object]) -> None:
        clock = self._store.now
        if not isinstance(clock, Clock):
            raise BadRequest("This clock can't be set: start the emulator with --clock, or Emulator(now=Clock(…))")
        match asked:
            case {"now": int(now), **rest} if not rest and not isinstance(now, bool):
                pass
            case {"advance": int(milliseconds), **rest} if not rest and not isinstance(milliseconds, bool):
                now = clock() + milliseconds
            case _:
                raise BadRequest('The body is {"now": MILLISECONDS} or {"advance": MILLISECONDS}')
        if not 0 <= now <= _LAST_INSTANT:
            raise BadRequest(f"The clock can show 0 to {_LAST_INSTANT} ms, not {now}")
        clock.set(now)


def _only_admin(access: Access) -> None:
    if not access.admin:
        raise Denied


def _check(words: Mapping[str, object]) -> None:
    """Raise BadRequest for parameters with which the fault would fail later, at a request."""
    for word, value in words.items():
        forms = _FORMS.get(word, (str,))
        is_meant = isinstance(value, forms) and (bool in forms or not isinstance(value, bool))
        if isinstance(value, list):
            is_meant = is_meant and len(value) == 2 and all(isinstance(item, str) for item in value)
        if isinstance(value, dict):
            is_meant = is_meant and all(isinstance(item, str) for item in value.values())
        if word == "status":
            is_meant = value in range(200, 600)
        if word == "moment":
            is_meant = value in _MOMENTS
        if not is_meant:
            raise BadRequest(f"{word} can't be {value!r}")


def _object(request: RestRequest) -> dict[str, object]:
    data = decode(request.body)
    if not isinstance(data, dict):
        raise BadRequest("The body is a JSON object")
    return data


# --- the coverage as a page: the rules' text with a mark on each rule, and a table of all rules and counts

_HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Rules coverage</title>
<style>
:root { --line: #e3e3df; --muted: #65696d; --seen: #cdeccf; --half: #fbe9b0; --missed: #fbd0c8 }
@media (prefers-color-scheme: dark) {
  :root { --line: #2b2e30; --muted: #979b9f; --seen: #1d4424; --half: #57480e; --missed: #62261a }
}
body { font-family: system-ui, sans-serif; margin: 1.5em 2em; max-width: 72em }
h1 { font-size: 1.3em; margin: 0 0 .3em }
h2 { font-size: 1em; margin: 2em 0 .5em }
p { color: var(--muted); margin: .3em 0 }
pre, code { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px }
pre { line-height: 1.6; overflow-x: auto; border: 1px solid var(--line); border-radius: 4px; padding: .6em 0 }
pre .number { display: inline-block; width: 3em; margin-right: 1em; text-align: right }
pre .number, pre .counts { color: var(--muted); user-select: none }
mark { color: inherit; border-radius: 3px; padding: 1px 2px }
p mark { color: CanvasText }
.seen { background: var(--seen) }
.half { background: var(--half) }
.missed { background: var(--missed) }
pre .counts { margin-left: 1.5em }
table { border-collapse: collapse }
th, td { border: 1px solid var(--line); padding: .3em .6em; text-align: left; vertical-align: top }
td.count { text-align: right; font-variant-numeric: tabular-nums }
td code { overflow-wrap: anywhere }
</style>
"""
_LEGEND = (
    ("seen", "seen with each outcome"),
    ("half", "seen with one outcome of two"),
    ("missed", "never evaluated"),
)
# The text of a rule in the document: a string, or true or false.
_RULE = re.compile(r"""\"(?:[^"\\]|\\.)*\"|\w+""", re.DOTALL)


def _coverage_page(namespace: str, rules: Rules, rows: Sequence[Row]) -> str:
    legend = " ".join(f'<mark class="{kind}">{text}</mark>' for kind, text in _LEGEND)
    lines = [
        _HEAD,
        f"<h1>Rules of {escape(namespace)}: {percent(rows):.1f} % of their outcomes were seen</h1>",
        f'<p><a href="/?ns={quote(namespace, safe="")}">the data and the operations</a></p>',
        f"<p>{legend}</p>",
        "<p>A value of a wrong type breaks a rule, and it forbids then. An administrator's requests evaluate none.</p>",
        f"<h2>The rules</h2>\n<pre>{''.join(_text(rules.source, rows))}</pre>",
        "<h2>All rules, first those that a test has to see</h2>",
        "<table><tr><th>where</th><th>rule</th><th>true</th><th>false</th><th>broken</th></tr>",
        *map(_line, sorted(rows, key=lambda row: row.seen == row.possible)),
        "</table></html>\n",
    ]
    return "\n".join(lines)


def _text(source: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the rules, with a mark on each rule and the counts beside it."""
    lines = source.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    marks: list[tuple[int, int, Row]] = []
    for row in rows:
        line, column = row.rule.place
        found = _RULE.match(source, starts[line - 1] + column - 1)
        if found is not None:
            marks.append((found.start(), found.end(), row))
    for number, text in enumerate(lines, 1):
        begin, end = starts[number - 1], starts[number - 1] + len(text)
        here = [mark for mark in marks if mark[0] < end and mark[1] > begin]
        counts = [_said(row) for start, _, row in here if start >= begin]
        beside = f'<span class="counts">{"; ".join(counts)}</span>' if counts else ""
        yield f'<span class="number">{number}</span>{_marked(source, begin, end, here)}{beside}\n'


def _marked(source: str, begin: int, end: int, marks: Sequence[tuple[int, int, Row]]) -> str:
    """Return a part of the text as HTML, with these marks."""
    parts = []
    at = begin
    for first, last, row in marks:
        start, stop = max(first, begin), min(last, end)
        start += len(source[start:stop]) - len(source[start:stop].lstrip())  # the indent of a rule's next line
        parts.append(escape(source[at:start]))
        parts.append(f'<mark class="{_kind(row)}" title="{_said(row)}">{escape(source[start:stop])}</mark>')
        at = stop
    return "".join(parts) + escape(source[at:end])


def _kind(row: Row) -> str:
    return "missed" if not row.seen else "seen" if row.seen == row.possible else "half"


def _said(row: Row) -> str:
    counts = zip(row.counts, ("true", "false", "broken"), strict=True)
    return ", ".join(f"{count} {outcome}" for count, outcome in counts if count) or "never"


def _line(row: Row) -> str:
    line, column = row.rule.place
    where = escape(f"/{'/'.join(row.rule.path)} {row.rule.kind} ({line}:{column})")
    rule = f"<code>{escape(show(row.rule.expression))}</code>"
    counts = "".join(f'<td class="count">{count}</td>' for count in row.counts)
    return f'<tr class="{_kind(row)}"><td>{where}</td><td>{rule}</td>{counts}</tr>'
