"""A wire between clients and a server that a test can cut, hold up, or wrap in TLS."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on a port of its own and carries bytes to the server and back.

    Args:
        target: host and port of the server.
        tls: with it, clients must speak TLS to us; the server is spoken to in the clear.
    """

    def __init__(self, target: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        self._target, self._tls = target, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Every connection breaks, and new ones break at once until mend()."""
        self._open.clear()
        with self._lock:
            for pair in self._pairs:
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(client.close)
            if not self._open.is_set():
                return
            try:
                if self._tls is not None:
                    client = stack.enter_context(self._tls.wrap_socket(client, server_side=True))
                server = stack.enter_context(socket.create_connection(self._target))
            except OSError:
                return
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            with contextlib.suppress(OSError):
                _pump(client, server)
            with self._lock:
                self._pairs.discard(pair)


def _pump(client: socket.socket, server: socket.socket) -> None:
    """Bytes both ways until one side is closed. TLS may hold decrypted bytes that select() does not see."""
    while True:
        held = isinstance(client, ssl.SSLSocket) and client.pending() > 0
        ready = [client] if held else select.select([client, server], [], [])[0]
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            (server if source is client else client).sendall(data)
