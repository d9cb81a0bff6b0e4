"""A producer or a taker of the fault test, as a process of its own that may be killed at any moment.

    python fault_client.py produce PLACE RECORD WHO COUNT
    python fault_client.py take PLACE RECORD WHO LEASE_S

Each writes a record that outlives it, one line an event: a producer what it has put, a taker what it was handed
(before it acknowledges it) and what it has acknowledged.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from steersman.bus import LeaseExpired, TupleSpace

SPACE, PATIENCE_S = "faults", 120.0
WORK_S = 0.003  # a taker holds its lease for so long


def produce(space: TupleSpace, record: Path, who: int, count: int) -> None:
    """Puts (work, who, 0..count-1); after a death it goes on where its record ends, and repeats the unsure one."""
    whole_lines = record.read_text().count("\n") if record.exists() else 0
    with record.open("ab", buffering=0) as file:
        for n in range(whole_lines, count):
            space.put("work", who, n, once=f"{who}.{n}")
            file.write(b"put\n")


def take(space: TupleSpace, record: Path, me: str, lease_s: float) -> None:
    """Takes until nothing came for so long that every lease of a dead taker must have ended."""
    file = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for t in space.takes("work", int, int, lease_s=lease_s, timeout_s=4 * lease_s):
        proof = all("lease ended" in line for line in t.history) and len(t.history) == t.deliveries - 1
        os.write(file, f"handed {t[1]} {t[2]} {t.deliveries} {int(proof)} {me}\n".encode())
        time.sleep(WORK_S)
        try:
            space.ack(t)
        except LeaseExpired:
            os.write(file, f"late {t[1]} {t[2]} {t.deliveries} 1 {me}\n".encode())
        else:
            os.write(file, f"acked {t[1]} {t[2]} {t.deliveries} 1 {me}\n".encode())


def main() -> None:
    what, place, record, who, amount = sys.argv[1:]
    space = TupleSpace.connect(place, space=SPACE, patience_s=PATIENCE_S)
    if what == "produce":
        produce(space, Path(record), int(who), int(amount))
    else:
        take(space, Path(record), who, float(amount))


if __name__ == "__main__":
    main()
