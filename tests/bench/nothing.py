"""A server that answers every request `200 null` unread: what is left is the load generator's own cost."""

from __future__ import annotations

import asyncio

REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull"


class Nothing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(REPLY)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Nothing, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
