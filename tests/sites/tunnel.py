"""ADDRESS FIRST LAST: carry what comes to these ports of an address to the same ports of 127.0.0.1, as ssh -R does."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Sequence


async def main(words: Sequence[str]) -> None:
    address, first, last = words[0], int(words[1]), int(words[2])
    for port in range(first, last + 1):
        await asyncio.start_server(_to(port), address, port)
    print("it is there", flush=True)
    await asyncio.Event().wait()


def _to(port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.closing(back):
                ways = [asyncio.ensure_future(_pump(reader, back)), asyncio.ensure_future(_pump(there, writer))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)

    return carry


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
