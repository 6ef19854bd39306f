"""REST: the answer to a request is a function of the request and the store, without sockets.

Each method of HTTP has its function here. All of them check in the same order: credentials, the form of the request,
permission and parameters that can't be mixed (of a conditional write after its precondition), validation.
`Service.answer` returns an answer for every bad request, and raises nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import quote

from rtdb_emulator.database import ADMIN, Access, Database, PreconditionFailed, etag
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.http.credentials import identify
from rtdb_emulator.http.management import MANAGEMENT, Endpoint
from rtdb_emulator.http.messages import SCRIPT, TEXT, Answer, Reply, RestRequest, Stream, error_reply, method_of
from rtdb_emulator.http.parameters import (
    READ_TOO_LARGE,
    WRITE_SIZE_LIMITS,
    WRITE_TOO_LARGE,
    Options,
    has_query,
    parse_options,
)
from rtdb_emulator.jsondata import as_array, decode, decode_patch, encode, encode_shallow, render
from rtdb_emulator.operations import Account
from rtdb_emulator.paths import PRIORITY, parse_url_path
from rtdb_emulator.pushid import PushIds
from rtdb_emulator.query import Query, parse_query, parse_shallow
from rtdb_emulator.store import Store
from rtdb_emulator.streaming import View
from rtdb_emulator.tree import EMPTY, Node, Path
from rtdb_emulator.viewer import pages

logger = logging.getLogger("rtdb_emulator")

MAX_READ = 256 * 1024 * 1024

_METHODS = "GET, PUT, POST, PATCH, DELETE"
_MIXED_PRECONDITION = (
    "Mixing 'shallow', querying parameters or 'print=silent' and if-match or if-none-match requests is not supported"
)
_MIXED_SHALLOW = "Mixing 'shallow' and etag requests is not supported"
_MIXED_QUERY = "Mixing querying parameters and ETag requests is not supported"


class Service:
    """REST for every database of a store; `project` names the database of a request that names none, unless there is
    exactly one.
    """

    def __init__(
        self,
        store: Store,
        project: str,
        random_bits: Callable[[int], int] | None = None,
        doors: Mapping[str, Endpoint] | None = None,
    ) -> None:
        self._store = store
        self._project = project
        self._push_ids = PushIds(random_bits)
        self._doors = doors or {}
        self._hinted: set[str] = set()

    def is_door(self, request: RestRequest) -> bool:
        """Return whether a request is for the emulator's own endpoints (`doors`), and not for a database."""
        return request.path.strip("/") in self._doors

    def answer(self, request: RestRequest) -> Answer:
        try:
            answer = self._route(request)
        except PreconditionFailed as failed:
            current = failed.current
            pretty = request.parameters.get("print") == "pretty"
            answer = Reply(412, encode(render(current), pretty=pretty), {"etag": etag(current)})
        except BadRequest as error:
            answer = error_reply(400, error.text)
        except Denied as error:
            answer = replace(error_reply(401, error.text), refused=error.refused)
        return answer

    def namespace(self, request: RestRequest) -> str:
        """Return the database of a request.

        That is `?ns=`, else the first label of the host; on a bare address the only database, else the project's.
        """
        if request.parameters.get("ns"):
            return request.parameters["ns"]
        host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
        label, dot, _ = host.partition(".")
        if dot and not _is_address(host):
            return label
        names = self._store.names()
        if len(names) == 1:
            return names[0]
        if request.path.endswith(".json") and names and {*names, self._project} != self._hinted:
            self._hinted = {*names, self._project}
            logger.warning(
                "%s %s names no database (?ns=NAME) and is for %r; there are %s",
                request.method, request.path, self._project, ", ".join(names),
            )  # fmt: skip
        return self._project

    def note(self, account: Account) -> None:
        """Remember an operation for the emulator's page."""
        self._store.operations.add(account)

    def _route(self, request: RestRequest) -> Answer:
        method = method_of(request)
        if method == "OPTIONS":
            return _preflight(request)
        if method in ("GET", "HEAD"):
            if request.path == "/":
                wants_page = "text/html" in request.headers.get("accept", "")
                return pages.front_page() if wants_page else Reply(200, b"rtdb-emulator is ready\n", content_type=TEXT)
            if file := pages.file(request.path):
                return file
        if request.path == "/.ws":
            text = b"This is a WebSocket: ask for an upgrade.\n"
            return Reply(426, text, {"upgrade": "websocket", "connection": "upgrade"}, TEXT)
        if not request.path.endswith(".json") and request.path.strip("/") not in MANAGEMENT:
            return Reply(404, b"append .json to your request URI to use the REST API.", content_type=TEXT)
        access = identify(request.headers, request.parameters)
        namespace = self.namespace(request)
        name = request.path.strip("/")
        if management := self._doors.get(name) or MANAGEMENT.get(name):
            return management(method, request, access, self._store, namespace)
        database = self._store.database(namespace)
        options = parse_options(request.parameters)
        path = parse_url_path(request.path.removesuffix(".json"))
        if options.callback and method not in ("GET", "HEAD"):
            raise BadRequest(f"callback is for GET requests, not for {method}")
        match method:
            case "GET" | "HEAD":
                return self._get(request, database, path, access, options)
            case "PUT":
                return self._put(request, database, path, access, options)
            case "POST":
                return self._post(request, database, path, access, options)
            case "PATCH":
                return self._patch(request, database, path, access, options)
            case "DELETE":
                return self._delete(request, database, path, access, options)
            case _:
                return error_reply(405, f"{method} is not one of {_METHODS}")

    def _get(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Answer:
        if options.shallow:
            query = parse_shallow(request.parameters)
            database.check_read(path, access)
        else:
            query = parse_query(request.parameters)
            database.check_read(path, access, query)
        # The rules allow the read. From here on `ADMIN` only stands for that; the index is checked still.
        _check_readable_together(request, options, has_query(request.parameters))
        if "text/event-stream" in request.headers.get("accept", "") and method_of(request) == "GET":
            if options.shallow or path[-1:] == (PRIORITY,):
                raise BadRequest("A stream is of a whole node: leave out shallow and .priority")
            database.read(path, ADMIN, query)
            return Stream(database, View(path, query), access)
        node = database.read(path, ADMIN, query)
        headers = {}
        if "download" in request.parameters:
            headers["content-disposition"] = f"attachment; filename={quote(request.parameters['download'])}"
        wanted = request.headers.get("if-none-match")
        if wanted is not None or _wants_etag(request):
            headers["etag"] = etag(node)
        if wanted is not None and wanted == headers["etag"]:
            return Reply(304, headers=headers)
        if options.printing == "silent":
            return _reply(b"", headers, options)
        body = _body(node, query, options)
        if len(body) > MAX_READ:
            raise BadRequest(READ_TOO_LARGE)
        if options.callback:
            return Reply(200, _script(options.callback, body), headers, SCRIPT)
        return _reply(body, headers, options)

    def _put(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Reply:
        _check_write_size(request.size, options)
        data = _data(request)
        if_match = self._precondition(request, database, path, data, access, options)
        node = database.write(path, data, access, if_match=if_match, rules_first=request.rules_first)
        return _stored(node, request, options)

    def _post(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Reply:
        _check_plain_write(request)
        if path[-1:] == (PRIORITY,):
            raise BadRequest("POST makes a child, and .priority can have none: PUT it")
        _check_write_size(request.size, options)
        data = _data(request)
        name = self._push_ids.next(self._store.now())
        node = database.write((*path, name), data, access)
        headers = {"etag": etag(node)} if _wants_etag(request) else {}
        return _reply(encode({"name": name}, pretty=options.printing == "pretty"), headers, options)

    def _patch(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Reply:
        _check_plain_write(request)
        _check_write_size(request.size, options)
        data = _patch_data(request)
        if data is None:  # the Firebase CLI deletes so
            _check_removal(database, path, options)
            database.write(path, None, access)
            return _stored(EMPTY, request, options)
        stored = database.update(path, data, access)
        shown = {key: render(node, priorities=True) for key, node in stored.items()}
        return _reply(encode(shown, pretty=options.printing == "pretty"), {}, options)

    def _delete(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Reply:
        _check_removal(database, path, options)
        if_match = self._precondition(request, database, path, None, access, options)
        database.write(path, None, access, if_match=if_match, rules_first=request.rules_first)
        return _stored(EMPTY, request, options)

    def _precondition(
        self, request: RestRequest, database: Database, path: Path, data: object, access: Access, options: Options
    ) -> str | None:
        """Return the ETag of a conditional PUT or DELETE. Raises BadRequest (after Denied) for parameters that can't go
        with it.
        """
        queried = has_query(request.parameters)
        if_match = request.headers.get("if-match")
        if if_match is not None and (options.shallow or queried or options.printing == "silent"):
            database.check_write(path, data, access)
            raise BadRequest(_MIXED_PRECONDITION)
        if queried:
            raise BadRequest("Querying related parameters not supported on this request type")
        return if_match


def _preflight(request: RestRequest) -> Reply:
    return Reply(
        200,
        headers={
            "access-control-allow-methods": _METHODS,
            "access-control-allow-headers": request.headers.get("access-control-request-headers", ""),
            "access-control-max-age": "3600",
        },
    )


def _check_readable_together(request: RestRequest, options: Options, queried: bool) -> None:
    if "if-match" in request.headers:
        raise BadRequest("if-match is not supported on GET requests")
    if "if-none-match" in request.headers and (options.shallow or queried or options.printing == "silent"):
        raise BadRequest(_MIXED_PRECONDITION)
    if _wants_etag(request) and options.shallow:
        raise BadRequest(_MIXED_SHALLOW)
    if _wants_etag(request) and queried:
        raise BadRequest(_MIXED_QUERY)


def _check_plain_write(request: RestRequest) -> None:
    if "if-match" in request.headers:
        raise BadRequest(f"if-match is not supported on {method_of(request)} requests")
    if has_query(request.parameters):
        raise BadRequest("Querying related parameters not supported on this request type")


def _data(request: RestRequest) -> object:
    if isinstance(request.content, BadRequest):
        raise request.content
    return decode(request.body) if request.content is None else request.content


def _patch_data(request: RestRequest) -> dict[str, object] | None:
    if isinstance(request.content, BadRequest):
        raise request.content
    return request.content if isinstance(request.content, dict) else decode_patch(request.body)


def _check_write_size(size: int, options: Options) -> None:
    limit = WRITE_SIZE_LIMITS[options.write_size_limit]
    if limit is not None and size > limit:
        raise BadRequest(WRITE_TOO_LARGE)


def _check_removal(database: Database, path: Path, options: Options) -> None:
    if WRITE_SIZE_LIMITS[options.write_size_limit] is not None:
        _check_write_size(len(encode(render(database.root.at(path)))), options)


def _body(node: Node, query: Query | None, options: Options) -> bytes:
    pretty = options.printing == "pretty"
    if options.shallow:
        return encode_shallow(node, list(query.select(node)) if query else None, pretty=pretty)
    return encode(_shown(node, query, options), pretty=pretty)


def _shown(node: Node, query: Query | None, options: Options) -> object:
    if query is None or node.is_empty:
        return render(node, priorities=options.export, arrays=not options.export)
    chosen: Mapping[str, Node] = query.select(node)
    members = {
        key: render(child, priorities=options.export, arrays=not options.export) for key, child in chosen.items()
    }
    return members if options.export else as_array(members)


def _stored(node: Node, request: RestRequest, options: Options) -> Reply:
    headers = {"etag": etag(node)} if _wants_etag(request) else {}
    if request.content is not None and not options.printing:
        return Reply(200, b"", headers, shown=node)
    body = encode(render(node, priorities=True), pretty=options.printing == "pretty")
    return _reply(body, headers, options)


def _reply(body: bytes, headers: Mapping[str, str], options: Options) -> Reply:
    return Reply(204, b"", headers) if options.printing == "silent" else Reply(200, body, headers)


def _script(function: str, body: bytes) -> bytes:
    """Return JSON as a call, for pages that load it as a script. No other format begins with this comment."""
    # These two characters are line breaks in older JavaScript, and not in JSON.
    for separator in ("\u2028", "\u2029"):
        body = body.replace(separator.encode(), f"\\u{ord(separator):04x}".encode())
    return b"/**/%s(%s);" % (function.encode(), body)


def _wants_etag(request: RestRequest) -> bool:
    return request.headers.get("x-firebase-etag", "").lower() == "true"


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
