"""All sockets of one emulator: handshakes, the sessions by their ids, and the end of all sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from asyncio import AbstractEventLoop, Transport
from collections.abc import Callable, Generator
from weakref import WeakValueDictionary

from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.http.log import Criteria, RequestFacts, RequestLog, fits
from rtdb_emulator.http.messages import RestRequest
from rtdb_emulator.http.service import Service
from rtdb_emulator.paths import parse_url_query
from rtdb_emulator.steps import Later, at_once, has_more, in_slices
from rtdb_emulator.store import Store
from rtdb_emulator.viewer import Inspector
from rtdb_emulator.ws.connection import Connection
from rtdb_emulator.ws.listens import Listens
from rtdb_emulator.ws.messages import MAX_MESSAGE, inspected
from rtdb_emulator.ws.requests import Opening
from rtdb_emulator.ws.session import Session

PATH = "/.ws"
# A message is counted in UTF-16 units, and each of them has up to three bytes in UTF-8.
_MAX_FRAME = 3 * MAX_MESSAGE

_NO_HANDSHAKE = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\r\n"
    b"This is not a handshake: a GET has at most 128 headers, and lines of 8 KiB.\n"
)

# A connection that ends is not worth a line in the log.
_silent = logging.getLogger("rtdb_emulator.websockets")
_silent.setLevel(logging.ERROR)


class Sockets:
    """Every connection of one emulator.

    After `silence` seconds without a byte, a client counts as gone. With `explains` a client gets the reason for each
    refusal.
    """

    def __init__(
        self, store: Store, service: Service, log: RequestLog, faults: Faults, *, silence: float, explains: bool
    ) -> None:
        self._store = store
        self._service = service
        self._log = log
        self._faults = faults
        self._silence = silence
        self._explains = explains
        self._listens: WeakValueDictionary[str, Listens] = WeakValueDictionary()
        self._connections: dict[str, Connection] = {}
        # The sessions whose clients are gone, and whose onDisconnect writes are not all done.
        self._ending: dict[str, Later[None]] = {}
        self._tasks: set[asyncio.Task[object]] = set()

    def adopt(self, transport: Transport, head: bytes, port: int, loop: AbstractEventLoop) -> None:
        """Answer a handshake, whose request is `head`, and serve the connection from here on."""
        protocol = ServerProtocol(max_size=_MAX_FRAME, logger=_silent)
        protocol.receive_data(head)
        (handshake,) = protocol.events_received() or (None,)
        if not isinstance(handshake, Handshake):
            # A line or a header is too long, or there are too many headers. websockets sends no answer of its own.
            transport.write(_NO_HANDSHAKE)
            transport.close()
            return
        response = protocol.accept(handshake)
        if response.status_code == 101:
            try:
                facts, listens = self._opened(handshake, port, loop)
            except BadRequest as error:
                response = protocol.reject(400, f"{error.text}\n")
        protocol.send_response(response)
        transport.write(b"".join(protocol.data_to_send()))
        if response.status_code != 101:
            transport.close()
            return
        former = facts.parameters.get("ls", "")
        self.end(former)
        # Never the same in two runs: else a client that comes back from an earlier run would end another client's
        # session.
        name = secrets.token_hex(12)
        connection = Connection(
            transport,
            protocol,
            loop,
            log=self._log,
            faults=self._faults,
            operations=self._store.operations,
            silence=self._silence,
            ended=lambda steps: self._end(name, steps, loop),
        )
        self._connections[name] = connection
        transport.set_protocol(connection)
        session = Session(
            listens,
            connection.output.send,
            lambda: Inspector(self._store, listens.database, lambda state: connection.output.send(inspected(state))),
            explains=self._explains,
        )
        opening = Opening(facts, len(head), self._store.now, name, self._ending.get(former))
        connection.open(session, opening)

    def end(self, name: str) -> None:
        """End the session of this name, if it still runs: its client has come back."""
        if name in self._connections:
            self._connections[name].drop()

    def interrupt(self, criteria: Criteria) -> None:
        """Drop all connections that fit the criteria."""
        for connection in tuple(self._connections.values()):
            if fits(criteria, connection.facts):
                connection.drop()

    def stop(self) -> None:
        """Close all connections. The onDisconnect writes of their clients don't run; those of clients that were gone
        before do.
        """
        for connection in tuple(self._connections.values()):
            connection.stop()
        for steps in tuple(self._ending.values()):
            at_once(steps.making())

    def _end(self, name: str, steps: Generator[None], loop: AbstractEventLoop) -> None:
        """End a session in slices, if that takes more than a step."""
        self._connections.pop(name, None)
        if has_more(steps):
            ending = self._ending[name] = Later(steps)
            self._begin(ending.making(), loop, lambda: self._ending.pop(name))

    def _begin(
        self, steps: Generator[object, None, object], loop: AbstractEventLoop, over: Callable[[], object] = lambda: None
    ) -> None:
        task = loop.create_task(in_slices(steps))
        self._tasks.add(task)

        def done(task: asyncio.Task[object]) -> None:
            self._tasks.discard(task)
            over()

        task.add_done_callback(done)

    def _work(self, steps: Generator[object, None, object], loop: AbstractEventLoop) -> None:
        """Run steps in slices. Any thread may call this."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._begin, steps, loop)

    def _opened(self, handshake: Handshake, port: int, loop: AbstractEventLoop) -> tuple[RequestFacts, Listens]:
        parameters = parse_url_query(handshake.path.partition("?")[2])
        headers = {name.lower(): value for name, value in handshake.headers.raw_items()}
        namespace = self._service.namespace(RestRequest("GET", PATH, parameters, headers))
        listens = self._listens.get(namespace)
        if listens is None:
            database = self._store.database(namespace)
            listens = self._listens[namespace] = Listens(database, lambda steps: self._work(steps, loop))
        return RequestFacts("OPEN", "/", namespace, parameters, headers, port, "socket"), listens
