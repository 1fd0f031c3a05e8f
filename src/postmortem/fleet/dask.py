"""The workers of a Dask cluster as nodes: those of a job, or many hands for evidence on storage.

Dask unpickles what its scheduler and workers send: they are trusted as the user's own programs are,
unlike what the nodes of the other engines say.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from postmortem.fleet.engines import GRACE, MOST_BYTES, Engine, NoEngine, Said
from postmortem.fleet.worker import runner, said_by

_CONNECT_SECONDS = 10
_MOST_IN_A_TASK = 64
"""Cores that one task folds: small enough that workers of different speed end together."""


def workers_of(address: str) -> dict[str, str]:
    """Return the host of each worker by its address; raises NoEngine."""
    client = _client(address)
    with client:
        rows = client.scheduler_info(n_workers=-1)["workers"]
    if not rows:
        raise NoEngine(f"the Dask scheduler at {address} has no workers")
    return {name: str(row["host"]) for name, row in rows.items()}


def one_for_each_host(workers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the first worker of each host."""
    first: dict[str, str] = {}
    for name, host in workers.items():
        first.setdefault(host, name)
    return tuple(first.values())


def shares(words: Sequence[str]) -> list[list[str]]:
    """Return the words with a share of the files below the folders that they name, for each task.

    The storage is that of all workers, and it is seen from here, too; raises NoEngine. Addresses
    (``s3://bucket/cores``) are listed by fsspec.
    """
    named, files = [], []
    for word in words:
        found = _listed(word) if "://" in word else _files(Path(word))
        files += found
        if not found and not Path(word).is_dir():
            named.append(word)
    if not files:
        raise NoEngine(f"no core is seen from here in {' '.join(words)}: it must be shared storage")
    parts = [files[i : i + _MOST_IN_A_TASK] for i in range(0, len(files), _MOST_IN_A_TASK)]
    return [[*named, *part] for part in parts]


def _files(path: Path) -> list[str]:
    rows = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [str(file) for file in rows if file.is_file()]


def _listed(address: str) -> list[str]:
    """Return the addresses of the objects below one; raises NoEngine."""
    from fsspec.core import url_to_fs

    try:
        storage, path = url_to_fs(address)
        return [storage.unstrip_protocol(name) for name in sorted(storage.find(path))]
    except Exception as failure:  # of whatever library it takes for the protocol
        words = str(failure).splitlines()[:1] or [type(failure).__name__]
        raise NoEngine(f"{address} cannot be listed: {words[0]}") from None


async def ask_dask(engine: Engine, commands: Mapping[str, Sequence[str]]) -> AsyncIterator[Said]:
    """Yield what each task said, as it comes; those named as workers run on these."""
    from distributed import as_completed

    assert engine.address is not None
    async with _client(engine.address, asynchronous=True) as client:
        info = client.scheduler_info(n_workers=-1)["workers"]
        run, limit = runner(), (engine.seconds + GRACE, MOST_BYTES)
        futures = {
            client.submit(
                run,
                list(command),
                *limit,
                workers=[node] if node in info else None,
                pure=False,
                retries=0,
            ): node
            for node, command in commands.items()
        }
        threads = sum(int(row.get("nthreads", 1)) for row in info.values()) or 1
        rounds = -(-len(futures) // threads)
        left = dict(futures)
        try:
            async with asyncio.timeout((engine.seconds + GRACE) * rounds):
                async for future in as_completed(list(futures), loop=client.loop):
                    yield await said_by(left.pop(future), future)
        except TimeoutError:
            for future, node in left.items():
                await future.cancel()
                yield Said(node, b"", "", None)


def _client(address: str, **options: Any) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise NoEngine("--dask needs Dask: pip install distributed") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # we tell it in one line
    try:
        return Client(address, timeout=_CONNECT_SECONDS, set_as_default=False, **options)
    except (OSError, ValueError, TimeoutError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NoEngine(f"no Dask scheduler answers at {address}: {said}") from None
