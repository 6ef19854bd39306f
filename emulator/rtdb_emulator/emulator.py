"""`Emulator`: a Realtime Database in this process, on a port of its own.

    with Emulator() as emulator:
        os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = emulator.host

It starts in milliseconds and keeps all data in memory. Any thread may call its methods; after a fork only the parent
may use it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from random import Random, SystemRandom
from types import TracebackType
from typing import Self
from urllib.parse import quote

from rtdb_emulator.clock import wall_clock
from rtdb_emulator.database import ADMIN
from rtdb_emulator.http.calls import Caller
from rtdb_emulator.http.endpoints import Endpoints
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.http.log import Criteria, RequestLog
from rtdb_emulator.http.server import App, Listener, open_socket
from rtdb_emulator.http.service import Service
from rtdb_emulator.jsondata import render
from rtdb_emulator.paths import split_path
from rtdb_emulator.rules import OPEN, Rules
from rtdb_emulator.rules.coverage import Coverage
from rtdb_emulator.store import Operations, Refusals, Store
from rtdb_emulator.ws.server import Sockets

DEFAULT_PROJECT = "demo-firecron"


class Emulator:
    """A Realtime Database emulator; a context manager, or `start()` and `stop()`.

    `faults` breaks requests, and `requests` is the log of requests.

    Args:
        host: The address to listen on.
        port: The port to listen on; 0 for any free port.
        rules: The rules of every namespace: the text of a rules file, the same as a mapping, or the file's path.
            Without rules, every client may read and write everything.
        project: The namespace of a request that names none, unless there is exactly one.
        now: Returns the server's time in milliseconds, for tests in virtual time.
        keep_alive: The seconds between two signs of life on a silent stream.
        silence: The seconds after which the emulator closes a socket whose client sends nothing.
        explain: Send clients on sockets the reason for each refusal; the SDKs print it.
        seed: The start of the random numbers, so that push ids are the same in each run.
        functions: The address of the Firebase CLI's functions emulator, as `host:port`, for functions that are
            registered.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        rules: str | Mapping[str, object] | FilePath | None = None,
        *,
        project: str = DEFAULT_PROJECT,
        now: Callable[[], int] = wall_clock,
        keep_alive: float = 30.0,
        silence: float = 120.0,
        explain: bool = False,
        seed: int | None = None,
        functions: str | None = None,
    ) -> None:
        self._address = (host, port)
        self._store = Store(now, _load_rules(rules))
        self._project = project
        self._keep_alive = keep_alive
        self._random = SystemRandom() if seed is None else Random(seed)
        self._silence = silence
        self._explain = explain
        self._functions = functions
        self._listener: Listener | None = None
        self.port = port
        self.requests = RequestLog()
        self.faults = Faults()

    @property
    def host(self) -> str:
        """`host:port`, the form of `FIREBASE_DATABASE_EMULATOR_HOST`."""
        host = self._address[0]
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the emulator, without a namespace."""
        return f"http://{self.host}"

    def database_url(self, namespace: str) -> str:
        """Return the `databaseURL` of one namespace.

        Args:
            namespace: The database's name.
        """
        return f"{self.url}/?ns={quote(namespace, safe='')}"

    def start(self) -> Self:
        """Serve, in a thread of the emulator's own.

        Raises OSError if the port is taken, and RuntimeError if the emulator runs already or no thread can start.
        """
        if self._listener is not None:
            raise RuntimeError(f"the emulator already runs on {self.host}")
        listening = open_socket(*self._address)
        self.port = _port(listening)
        listener = Listener(self._make_app)
        listener.start(listening)
        self._listener = listener
        return self

    def stop(self) -> None:
        """Close all connections and stop serving. The data stays. A stopped emulator stays stopped."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._store.discarded.detach()
            self._store.functions.detach()
            listener.stop()
            self.faults.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def get(self, namespace: str, path: str = "/", *, priorities: bool = False) -> object:
        """Return the value at a path, past all rules.

        Args:
            namespace: The database's name.
            path: The path, such as `/visits`.
            priorities: Return the value in the form of an export, with priorities.
        """
        node = self._store.database(namespace).read(split_path(path), ADMIN)
        return render(node, priorities=priorities, arrays=not priorities)

    def set(self, namespace: str, path: str, value: object) -> None:
        """Store a value at a path, past all rules. Listeners hear of it.

        Args:
            namespace: The database's name.
            path: The path, such as `/visits`.
            value: The value, as JSON's types in Python; None deletes.
        """
        self._store.database(namespace).write(split_path(path), value, ADMIN)

    def set_rules(self, namespace: str, rules: str | Mapping[str, object] | FilePath) -> None:
        """Replace the rules of one namespace.

        Args:
            namespace: The database's name.
            rules: The text of a rules file, the same as a mapping, or the file's path.
        """
        self._store.database(namespace).set_rules(_load_rules(rules))

    def replace_rules(self, rules: str | Mapping[str, object] | FilePath) -> None:
        """Replace the rules that all namespaces begin with. A namespace with rules of its own keeps those.

        Args:
            rules: The text of a rules file, the same as a mapping, or the file's path.
        """
        self._store.replace_rules(_load_rules(rules))

    def namespaces(self) -> list[str]:
        """Return the namespaces that have had a write, or have rules of their own."""
        return self._store.names()

    @property
    def refusals(self) -> Refusals:
        """The newest operations that the rules have denied, each with the `lines` that give the reason."""
        return self._store.refusals

    @property
    def operations(self) -> Operations:
        """The newest operations of all clients, each with its verdict, as the emulator's page shows them."""
        return self._store.operations

    def coverage(self) -> list[tuple[Rules, Coverage]]:
        """Return how often each rule was evaluated, and with which results, for all rules that namespaces had."""
        return self._store.totals()

    def drop(self, namespace: str) -> None:
        """Delete one namespace with its rules. Listeners hear of it.

        Args:
            namespace: The database's name.
        """
        self._store.drop(namespace)

    def listeners(self, namespace: str) -> int:
        """Return how many listeners a namespace has now: streams, and listens on sockets.

        Args:
            namespace: The database's name.
        """
        return self._store.database(namespace).listeners

    def add_port(self) -> int:
        """Open one more port to the same databases, and return it. It closes with the emulator.

        A client with a port of its own can be cut off by `Faults.cut_off(port=…)`.
        """
        listener = self._running()
        listening = open_socket(self._address[0], 0)
        listener.add(listening)
        return _port(listening)

    def _make_app(self) -> App:
        endpoints = Endpoints(self._store, self.faults)
        service = Service(self._store, self._project, endpoints, self._random.getrandbits)
        sockets = Sockets(
            self._store, service, self.requests, self.faults, silence=self._silence, explains=self._explain
        )
        app = App(self._store, service, self.requests, self.faults, self._keep_alive, sockets)
        self.faults.interrupt = lambda criteria: self._interrupt(app, criteria)
        self._store.discarded.attach(app.wake)
        self._store.functions.attach(Caller(self._store.functions, self._functions).wake)
        return app

    def _interrupt(self, app: App, criteria: Criteria) -> None:
        if self._listener is not None:
            self._listener.call_soon(lambda: app.interrupt(criteria))

    def _running(self) -> Listener:
        if self._listener is None:
            raise RuntimeError("the emulator doesn't run: call start(), or use it in a with block")
        return self._listener


def _load_rules(rules: str | Mapping[str, object] | FilePath | None) -> Rules:
    if rules is None:
        return OPEN
    if isinstance(rules, str) and "{" not in rules:
        raise ValueError(f"rules={rules!r} is not the text of rules; to name a file, give a pathlib.Path")
    return Rules.parse(rules.read_text("utf-8") if isinstance(rules, FilePath) else rules)


def _port(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port
