"""An all-reduce of PyTorch between the nodes, in a process of its own that has a deadline."""

import asyncio
import contextlib
import json
import os
import sys

from postmortem.facts.net import Collective, StageName
from postmortem.records import record

_MOST_LINES = 64


@record
class Place:
    """Where the processes meet, and how long they have."""

    backend: StageName
    host: str
    port: int
    ranks: tuple[int, ...]
    """The nodes that take part, in the order of their ranks."""
    seconds: float


async def take_part(place: Place, number: int) -> Collective:
    """Return how far this node's process came."""
    command = [sys.executable, "-m", "postmortem.net.reducing", place.backend]
    words = [place.host, str(place.port), str(place.ranks.index(number)), str(len(place.ranks))]
    # A child that lost us reads the end of its input, and ends: also when we are killed.
    child = await asyncio.create_subprocess_exec(
        *command,
        *words,
        str(place.seconds),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"},
    )
    found = Collective(number, place.backend, "import")
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(place.seconds * 2 + 60):
                found = await _followed(child, found)
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        await child.wait()
        transport = getattr(child, "_transport", None)
        if transport is not None:
            transport.close()
    if found.stage != "done" and found.error is None:
        code = child.returncode or 0
        ended = f"signal {-code}" if code < 0 else f"exit status {code}"
        error = f"the process ended with {ended}" if code not in (0, -9) else "no answer in time"
        found = Collective(number, place.backend, found.stage, found.seconds, error)
    return found


async def _followed(child: asyncio.subprocess.Process, found: Collective) -> Collective:
    assert child.stdout is not None
    seconds: list[float] = []
    for _ in range(_MOST_LINES):
        line = await child.stdout.readline()
        if not line:
            break
        try:
            row = json.loads(line)
            stage, took = str(row["stage"]), row.get("seconds")
            error = str(row["error"])[:1000] if row.get("error") else None
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # what a library prints on the way
        if isinstance(took, float):
            seconds.append(took)
        found = Collective(found.node, found.backend, stage, tuple(seconds), error)
        if error is not None or stage == "done":
            break
    return found
