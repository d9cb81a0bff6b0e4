"""Bytes out, messages in: the socket under a blocking client."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, TypeVar

import hiredis

from steersman.bus.addresses import Address, Resolve
from steersman.bus.errors import ServerRefused
from steersman.bus.programs import Connect, Disconnected, Exchange, Operation, Pause, Session, Step

T = TypeVar("T")
CONNECT_S = 5.0
READ_BYTES = 65536
_MORE = object()


class Connection:
    """One socket, used by one thread at a time."""

    def __init__(self, resolve: Resolve, patience_s: float) -> None:
        self.session = Session(patience_s)
        self._resolve = resolve
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._limit_s: float | None = -1.0

    def run(self, operation: Operation[T]) -> T:
        """Drive a program to its end."""
        program = operation(self.session)
        try:
            step = next(program)
            while True:
                try:
                    outcome = self._perform(step)
                except BaseException as broken:  # an interrupt too: the program may have to put things right
                    step = program.throw(broken)
                else:
                    step = program.send(outcome)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            if self.session.busy:
                self.close()

    def close(self) -> None:
        """The next operation connects anew."""
        self.session.connected = self.session.busy = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        if self._socket is not None:  # a space that nobody closed ends without a ResourceWarning
            self._socket.close()

    def _perform(self, step: Step) -> Any:
        if type(step) is Exchange:
            try:
                return self._exchange(step.data, step.timeout_s)
            except (OSError, hiredis.ProtocolError) as broken:
                raise Disconnected(str(broken)) from None
        if type(step) is Connect:
            return self._connect()
        if type(step) is Pause:
            time.sleep(step.seconds)
        return None

    def _exchange(self, data: bytes, timeout_s: float | None) -> Any:
        if self._socket is None:
            raise Disconnected("closed")
        if data:
            self._patient(timeout_s)
            self._socket.sendall(data)
        message = self._reader.gets()
        while message is _MORE:
            self._patient(timeout_s)
            try:
                received = self._socket.recv(READ_BYTES)
            except (TimeoutError, BlockingIOError):
                return None
            if not received:
                raise Disconnected("closed by the server")
            self._reader.feed(received)
            message = self._reader.gets()
        return message

    def _patient(self, timeout_s: float | None) -> None:
        if timeout_s != self._limit_s and self._socket is not None:
            self._socket.settimeout(timeout_s)
            self._limit_s = timeout_s

    def _connect(self) -> Address:
        self.close()
        address = self._resolve()
        self.session.address = address
        try:
            self._socket = _open(address)
        except ssl.SSLError as untrusted:
            raise ServerRefused(str(address), f"TLS: {untrusted}; ?ca=FILE names a certificate to trust") from None
        except OSError as refused:
            raise Disconnected(str(refused)) from None
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._limit_s = -1.0
        return address


def _open(address: Address) -> socket.socket:
    if address.path:
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(CONNECT_S)
        try:
            plain.connect(address.path)
        except OSError:
            plain.close()
            raise
        return plain
    plain = socket.create_connection((address.host, address.port), CONNECT_S)
    if plain.getsockname() == plain.getpeername():  # nobody listens, and this very port was given to us: an echo
        plain.close()
        raise ConnectionRefusedError(f"no server listens on {address}")
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if not address.tls:
        return plain
    try:
        return address.tls_context().wrap_socket(plain, server_hostname=address.host)
    except (OSError, ServerRefused):
        plain.close()
        raise
