"""HTTP over TLS, as to every real database: certificates, proxies with a tunnel, and the deadline."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.stores.raw_server import LONG, Behaviour, Wire, answering, serving

from firecron.base.clocks import Deadline, SystemTiming
from firecron.errors import ConfigurationError
from firecron.rtdb.failures import NoReply
from firecron.rtdb.transport import Reply, Transport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf"
TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"
NAME = "rtdb.test"
SHORT = 0.15


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of `NAME` and of localhost, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME), x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.fixture
def over_tls(pem: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Behaviour], Behaviour]:
    """A behaviour over TLS. The certificate is trusted, and no proxy is named."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pem))
    for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    def wrap(behaviour: Behaviour) -> Behaviour:
        def behave(wire: Wire) -> None:
            with context.wrap_socket(wire.connection, server_side=True) as connection:
                behaviour(Wire(connection, wire.server))

        return behave

    return wrap


Wrap = Callable[[Behaviour], Behaviour]


@contextmanager
def calling(host: str) -> Iterator[Transport]:
    with closing(Transport(f"https://{host}", 4)) as database:
        yield database


def get(database: Transport, seconds: float = LONG) -> Reply:
    return database.send(
        "GET", "/node.json", {"Authorization": "Bearer x"}, None, Deadline.after(SystemTiming(), seconds)
    )


def test_a_connection_is_kept_for_the_next_call(over_tls: Wrap) -> None:
    """Calls one after another share a connection: a handshake costs more than a call."""
    with serving(over_tls(answering(OK))) as server, calling(f"localhost:{server.port}") as database:
        assert [get(database).content for _ in range(3)] == [b"body"] * 3
        assert server.connections == 1
        assert f"Host: localhost:{server.port}\r\n".encode() in server.requests[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["another name", "nobody trusted"])
def test_a_certificate_that_proves_nothing_is_sent_nothing(
    over_tls: Wrap, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate of another name, or signed by nobody who is trusted, ends the call before the token is sent."""
    if host == "localhost":
        monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with serving(over_tls(answering(OK))) as server, calling(f"{host}:{server.port}") as database:
        with pytest.raises(NoReply) as raised:
            get(database)
        assert isinstance(raised.value.cause, ssl.SSLCertVerificationError)
        assert server.requests == []


def test_a_handshake_that_never_ends_is_left_at_the_deadline(over_tls: Wrap) -> None:
    """A server that accepts, and says nothing, costs the deadline."""

    def silent(wire: Wire) -> None:
        wire.server.stopping.wait(LONG)

    with serving(silent) as server, calling(f"localhost:{server.port}") as database, pytest.raises(NoReply):
        get(database, SHORT)


def test_a_server_that_drips_is_left_at_the_deadline(over_tls: Wrap) -> None:
    """The deadline is one of the whole call, also where TLS reads more than it hands on."""

    def drip(wire: Wire) -> None:
        wire.request()
        wire.drip(b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 100)

    with serving(over_tls(drip)) as server, calling(f"localhost:{server.port}") as database, pytest.raises(NoReply):
        get(database, SHORT)


def reset(sock: ssl.SSLSocket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def cut(sock: ssl.SSLSocket) -> None:
    socket.socket.shutdown(sock, socket.SHUT_RDWR)


def mix(sock: ssl.SSLSocket) -> None:
    socket.socket.sendall(sock, OK)


def forge(sock: ssl.SSLSocket) -> None:
    socket.socket.sendall(sock, bytes([21, 3, 3, 0, 2, 2, 80]))


def leave(sock: ssl.SSLSocket) -> None:
    sock.unwrap()


@pytest.mark.parametrize("before", [b"", OK[:20], OK[:-2], CHUNKED[:-7], ENDLESS], ids=repr)
@pytest.mark.parametrize("fault", [reset, cut, mix, forge, leave])
def test_a_fault_in_the_middle_of_a_call_is_no_reply(
    over_tls: Wrap, fault: Callable[[ssl.SSLSocket], None], before: bytes
) -> None:
    """A reset, an end without TLS's own, bytes that TLS has not sealed, a forged alert, and an end in order, but too
    early: a part of a reply never counts as one, and the next call has a connection of its own.
    """

    def behave(wire: Wire) -> None:
        while wire.request() is not None:
            if len(wire.server.requests) > 1:
                wire.connection.sendall(OK)
                continue
            assert isinstance(wire.connection, ssl.SSLSocket)
            wire.connection.sendall(before)
            fault(wire.connection)
            if fault in (mix, forge):
                wire.server.stopping.wait(LONG)
            return

    with serving(over_tls(behave)) as server, calling(f"localhost:{server.port}") as database:
        if fault is leave and before == ENDLESS:
            assert get(database).content == b"half"  # it says itself where it ends
        else:
            with pytest.raises(NoReply):
                get(database)
        assert get(database).content == b"body"


def proxy_with_a_tunnel(over_tls: Wrap) -> Behaviour:
    """A proxy, and the database behind it."""

    def behave(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(TUNNEL)
        over_tls(answering(OK))(wire)

    return behave


def test_a_proxy_sees_neither_token_nor_path(over_tls: Wrap, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy makes a tunnel, once a connection; its password is for the proxy, and the token is for the database."""
    with serving(proxy_with_a_tunnel(over_tls)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://ann:secret@127.0.0.1:{proxy.port}")
        with calling(NAME) as database:
            assert [get(database).content for _ in range(2)] == [b"body"] * 2
    tunnel, *inside = proxy.requests
    assert tunnel.startswith(f"CONNECT {NAME}:443 HTTP/1.".encode())
    assert b"Proxy-Authorization: Basic " in tunnel
    assert b"Bearer" not in tunnel
    assert [request.splitlines()[0] for request in inside] == [b"GET /node.json HTTP/1.1"] * 2
    assert not any(b"Proxy-Authorization" in request for request in inside)


def test_a_proxy_that_refuses_is_named(over_tls: Wrap, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tunnel that a proxy refuses is told with its status."""
    with serving(answering(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with calling(NAME) as database, pytest.raises(NoReply) as raised:
            get(database)
    assert "403" in str(raised.value.cause)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("HTTPS_PROXY", "socks5://ann:secret@127.0.0.1:1080", "SOCKS proxy"),
        ("HTTPS_PROXY", "http://", "proxy"),
        ("HTTPS_PROXY", "http://ann:secret@127.0.0.1:999999", "proxy"),
        ("REQUESTS_CA_BUNDLE", "/no/such/file.pem", "/no/such/file.pem"),
    ],
)
def test_what_the_environment_names_in_vain_is_a_mistake_of_the_configuration(
    over_tls: Wrap, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    """A proxy or a bundle of certificates that can't be used is told at once, without a password."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=said) as raised:
        Transport(f"https://{NAME}", 4)
    assert "secret" not in f"{raised.value} {raised.value.__cause__}"
