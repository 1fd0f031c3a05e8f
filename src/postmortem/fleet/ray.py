"""The nodes of a Ray cluster, where the job is one of Ray.

Ray unpickles what its nodes send: they are trusted as the user's own programs are.
"""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from postmortem.fleet.engines import GRACE, MOST_BYTES, Engine, NoEngine, Said
from postmortem.fleet.worker import Answer, runner, said_by

_CONNECT_SECONDS = 30


def nodes_of(address: str) -> tuple[str, ...]:
    """Return the names of the nodes that are alive; raises NoEngine."""
    return tuple(_ids(_cluster(address)))


def _ids(ray: Any) -> dict[str, str]:
    """Return the id of each node by its host's name; of several on one host, with the id."""
    alive = [row for row in ray.nodes() if row["Alive"]]
    hosts = Counter(row["NodeManagerHostname"] for row in alive)
    return {
        row["NodeManagerHostname"]
        + (f"-{row['NodeID'][:8]}" if hosts[row["NodeManagerHostname"]] > 1 else ""): row["NodeID"]
        for row in alive
    }


async def ask_ray(engine: Engine, commands: Mapping[str, Sequence[str]]) -> AsyncIterator[Said]:
    """Yield what each node said, as it comes; a task waits for no processor that the job has."""
    assert engine.address is not None
    ray = _cluster(engine.address)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ids = _ids(ray)
    remote = ray.remote(num_cpus=0, max_retries=0)(runner())
    limit = (engine.seconds + GRACE, MOST_BYTES)
    gate = asyncio.Semaphore(engine.at_once)

    async def one(node: str, command: Sequence[str]) -> Said:
        if node not in ids:
            return Said(node, b"", "Ray does not list it as alive", 255)
        where = NodeAffinitySchedulingStrategy(ids[node], soft=False)
        async with gate:
            answer = remote.options(scheduling_strategy=where).remote(list(command), *limit)
            try:
                async with asyncio.timeout(engine.seconds + 2 * GRACE):
                    return await said_by(node, _awaited(answer))
            except TimeoutError:
                ray.cancel(answer, force=True)
                return Said(node, b"", "", None)

    for said in asyncio.as_completed([one(node, row) for node, row in commands.items()]):
        yield await said


async def _awaited(answer: Any) -> Answer:
    found: Answer = await answer
    return found


def _cluster(address: str) -> Any:
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # we tell it in one line
    try:
        import ray
    except ImportError:
        raise NoEngine("--ray needs Ray: pip install ray") from None
    if ray.is_initialized():
        return ray
    failed: list[str] = []

    def begin() -> None:
        try:
            ray.init(address, log_to_driver=False, logging_level="CRITICAL")
        except Exception as error:  # of its own kinds, which differ with the version
            failed.append((str(error).splitlines() or [type(error).__name__])[0])

    # It tries for minutes; a daemon keeps nobody from ending.
    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    thread.join(_CONNECT_SECONDS)
    if failed or not ray.is_initialized():
        said = failed[0] if failed else f"no connection within {_CONNECT_SECONDS} s"
        raise NoEngine(f"no Ray cluster answers at {address}: {said}")
    return ray
