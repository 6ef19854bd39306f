"""REST: the answer to a request is a function of the request and the store, without sockets.

Each method of HTTP has its function here. All of them check in the same order: credentials, the form of the request,
permission and parameters that can't be mixed (of a conditional write after its precondition), validation.
`Service.answer` returns an answer for every bad request, and raises nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import quote

from rtdb_emulator import viewer
from rtdb_emulator.database import ADMIN, Access, Database, PreconditionFailed, etag
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.http.endpoints import Endpoints
from rtdb_emulator.http.messages import (
    JSON,
    SCRIPT,
    TEXT,
    WRITE_SIZE_LIMITS,
    WRITE_TOO_LARGE,
    Answer,
    Options,
    Reply,
    RestRequest,
    error_reply,
    has_query,
    identify,
    method_of,
    parse_options,
)
from rtdb_emulator.http.sse import Stream, View
from rtdb_emulator.jsondata import decode, decode_patch, encode, render
from rtdb_emulator.large import MOST_AT_ONCE, Form, Long, is_large, preparing, writing, writing_keys
from rtdb_emulator.paths import PRIORITY, PushIds, parse_url_path
from rtdb_emulator.query import Query, parse_query, parse_shallow
from rtdb_emulator.store import Store
from rtdb_emulator.tree import EMPTY, Node, Path

logger = logging.getLogger("rtdb_emulator")

_METHODS = "GET, PUT, POST, PATCH, DELETE"
_MOST_HINTS = 100
_MOST_NAMES = 5
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
        endpoints: Endpoints,
        random_bits: Callable[[int], int] | None = None,
    ) -> None:
        self._store = store
        self._project = project
        self._push_ids = PushIds(random_bits)
        self._endpoints = endpoints
        # The clients that were told to name a database, by their User-Agent.
        self._hinted: set[str] = set()

    def is_script(self, request: RestRequest) -> bool:
        """Return whether a request scripts the emulator, and is not for a database."""
        return request.path.strip("/") in self._endpoints.scripts

    def preparing(self, request: RestRequest) -> Generator[None]:
        """Make the answer to a request quick, in steps, where it needs the order or the hash of many children."""
        conditional = {"if-match", "if-none-match"} & request.headers.keys() or _wants_etag(request)
        if not request.path.endswith(".json") or not (conditional or "orderBy" in request.parameters):
            return
        try:
            database = self._store.database(self.namespace(request))
            path = parse_url_path(request.path.removesuffix(".json"))
            query = parse_query(request.parameters)
        except BadRequest:
            return  # which the answer says
        order = query.order if query is not None and database.has_index(path, query) else None
        yield from preparing(database.root.at(path), order, hashed=bool(conditional))

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
        client = request.headers.get("user-agent", "")
        if request.path.endswith(".json") and names and client not in self._hinted and len(self._hinted) < _MOST_HINTS:
            self._hinted.add(client)
            logger.warning(
                "%s %s of %s names no database (?ns=NAME) and is for %r; there are %s",
                request.method, request.path, client or "a client without a name", self._project, _some(names),
            )  # fmt: skip
        return self._project

    def _route(self, request: RestRequest) -> Answer:
        method = method_of(request)
        if method == "OPTIONS":
            return _preflight(request)
        if method in ("GET", "HEAD"):
            if request.path == "/":
                wants_page = "text/html" in request.headers.get("accept", "")
                return viewer.front_page() if wants_page else Reply(200, b"rtdb-emulator is ready\n", content_type=TEXT)
            if file := viewer.file(request.path):
                return file
        if request.path == "/.ws":
            text = b"This is a WebSocket: ask for an upgrade.\n"
            return Reply(426, text, {"upgrade": "websocket", "connection": "upgrade"}, TEXT)
        endpoint = self._endpoints.all.get(request.path.strip("/"))
        if not request.path.endswith(".json") and endpoint is None:
            return Reply(404, b"append .json to your request URI to use the REST API.", content_type=TEXT)
        access = identify(request.headers, request.parameters)
        namespace = self.namespace(request)
        if endpoint is not None:
            return endpoint(method, request, access, namespace)
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
        is_long, pieces = _shown(node, query, options)
        if options.callback:
            pieces = _script(options.callback, pieces)
        content_type = SCRIPT if options.callback else JSON
        if is_long:
            return Reply(200, b"", headers, content_type, long=Long(pieces))
        return Reply(200, b"".join(pieces), headers, content_type)

    def _put(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Reply:
        _check_write_size(request.size, options)
        data = _data(request)
        if_match = self._precondition(request, database, path, data, access, options)
        node = database.write(
            path, data, access, if_match=if_match, rules_first=request.rules_first, triggers=options.triggers
        )
        return _stored(node, request, options)

    def _post(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Reply:
        _check_plain_write(request)
        if path[-1:] == (PRIORITY,):
            raise BadRequest("POST makes a child, and .priority can have none: PUT it")
        _check_write_size(request.size, options)
        data = _data(request)
        name = self._push_ids.next(self._store.now())
        node = database.write((*path, name), data, access, triggers=options.triggers)
        headers = {"etag": etag(node)} if _wants_etag(request) else {}
        return _reply(encode({"name": name}, pretty=options.printing == "pretty"), headers, options)

    def _patch(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Reply:
        _check_plain_write(request)
        _check_write_size(request.size, options)
        data = _patch_data(request)
        if data is None:  # the Firebase CLI deletes so
            _check_removal(database, path, options)
            database.write(path, None, access, triggers=options.triggers)
            return _stored(EMPTY, request, options)
        stored = database.update(path, data, access, triggers=options.triggers)
        shown = {key: render(node, priorities=True) for key, node in stored.items()}
        return _reply(encode(shown, pretty=options.printing == "pretty"), {}, options)

    def _delete(self, request: RestRequest, database: Database, path: Path, access: Access, options: Options) -> Reply:
        _check_removal(database, path, options)
        if_match = self._precondition(request, database, path, None, access, options)
        database.write(
            path, None, access, if_match=if_match, rules_first=request.rules_first, triggers=options.triggers
        )
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


def _shown(node: Node, query: Query | None, options: Options) -> tuple[bool, Iterator[bytes]]:
    """Return the JSON of a read in pieces, and whether there are many of them."""
    form = Form(priorities=options.export, arrays=not options.export, pretty=options.printing == "pretty")
    keys = None if query is None or node.is_empty else query.keys(node)
    if options.shallow and node.members:
        keys = node.ordered_keys() if keys is None else keys
        return len(keys) > MOST_AT_ONCE, writing_keys(keys, form)
    if options.shallow:
        return is_large(node), writing(node.with_priority(None), form)
    if keys is not None:
        node = node.with_priority(None)  # its own is not a part of the window
    return is_large(node, keys), writing(node, form, keys)


def _stored(node: Node, request: RestRequest, options: Options) -> Reply:
    headers = {"etag": etag(node)} if _wants_etag(request) else {}
    if options.printing == "silent":
        return Reply(204, b"", headers)
    pretty = options.printing == "pretty"
    if is_large(node):
        return Reply(200, b"", headers, long=Long(writing(node, Form(priorities=True, pretty=pretty))))
    return Reply(200, encode(render(node, priorities=True), pretty=pretty), headers)


def _reply(body: bytes, headers: Mapping[str, str], options: Options) -> Reply:
    return Reply(204, b"", headers) if options.printing == "silent" else Reply(200, body, headers)


def _script(function: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield JSON as a call, for pages that load it as a script. No other format begins with this comment."""
    yield b"/**/%s(" % function.encode()
    for piece in pieces:
        # These two characters are line breaks in older JavaScript, and not in JSON.
        yield piece.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")
    yield b");"


def _wants_etag(request: RestRequest) -> bool:
    return request.headers.get("x-firebase-etag", "").lower() == "true"


def _some(names: list[str]) -> str:
    """Return a few of the names, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
