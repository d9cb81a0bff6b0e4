"""How an embedded server runs -> its configuration file and its access list."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

USER = "steersman"
MOST_CLIENTS = 100_000  # or as many as files may be open; a walker has two, and the server's default is 10,000
# What the library and its clients call, and nothing else: no KEYS, CONFIG, FLUSHALL or DEBUG, and no EVAL.
CONNECTION_COMMANDS = (
    "hello auth ping info scan fcall function|load ssubscribe sunsubscribe spublish pubsub|shardnumsub"
)
STRING_COMMANDS = "time getrange set del persist pexpire rpush lpop lrem llen ltrim lrange"
HASH_COMMANDS = "hget hset hsetnx hdel hexists hmget hincrby hkeys hlen"
ORDERED_SET_COMMANDS = "zadd zrem zpopmin zrange zrevrange zrangebyscore zscore zcard"
COMMANDS = f"{CONNECTION_COMMANDS} {STRING_COMMANDS} {HASH_COMMANDS} {ORDERED_SET_COMMANDS}"


@dataclass(frozen=True)
class ServerSettings:
    """How an embedded server runs.

    Attributes:
        bind: the interface it listens on; another than loopback only when other machines must reach it.
        fsync: "everysec" (a killed server or a power loss may cost the last two seconds of answered requests: the
            server does not write while the disk is busy with the last second) or "always" (none, and slower).
        maxmemory: bytes, 0 is unlimited; a put beyond it fails with OutOfMemory and nothing is evicted.
        tls: certificate, key and CA file; the server then speaks TLS only.
        program: the server's binary; empty takes binary().
        ports: the first and the last of those that it may listen on; None: any.
    """

    bind: str = "127.0.0.1"
    fsync: str = "everysec"
    maxmemory: int = 0
    tls: tuple[str, str, str] | None = None
    program: str = ""
    ports: tuple[int, int] | None = None


def configuration(home: Path, settings: ServerSettings, port: int) -> str:
    # noeviction: a tuple is never thrown away; the client sees OutOfMemory instead.
    lines = [
        f"bind {settings.bind}", "protected-mode no", "daemonize no", f"aclfile {_quoted(home / 'users.acl')}",
        f"dir {_quoted(home)}", f"maxmemory {settings.maxmemory}", "maxmemory-policy noeviction", "tcp-keepalive 15",
        f"maxclients {MOST_CLIENTS}", "databases 1",
        "appendonly yes", f"appendfsync {settings.fsync}", 'save ""', "aof-load-truncated yes",
    ]  # fmt: skip
    if settings.tls is None:
        lines.append(f"port {port}")
    else:
        certificate, key, ca = map(_quoted, settings.tls)
        lines += ["port 0", f"tls-port {port}", f"tls-cert-file {certificate}", f"tls-key-file {key}"]
        lines += [f"tls-ca-cert-file {ca}", "tls-auth-clients no"]
    return "\n".join(lines) + "\n"


def _quoted(path: str | Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def users(password: str) -> str:
    """The access list: nobody but our user enters, who reaches our keys and channels with our commands only."""
    digest = hashlib.sha256(password.encode()).hexdigest()
    allowed = " ".join(f"+{word}" for word in COMMANDS.split())
    # The default user cannot log in, but Redis checks its rights when it reads the append-only file back.
    return f"user default off ~* &* +@all\nuser {USER} on #{digest} ~{USER}:* &{USER}:* -@all {allowed}\n"
