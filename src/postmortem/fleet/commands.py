"""What ``hang``, ``doctor``, ``net`` and ``collect`` are on many nodes."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from postmortem.facts.fleet import Crash, Fleet, Part, merge, merge_all
from postmortem.facts.source import Problem
from postmortem.fleet.answers import part_of
from postmortem.fleet.engines import Engine, ask
from postmortem.partial import new_file
from postmortem.records import replace

KINDS = {"hang": ("hang",), "doctor": ("doctor",), "net": ("net",), "collect": ("cores", "core")}
_MOST_CRASHES = 64


def run(
    engine: Engine, command: str, words: Sequence[str], folder: Path | None
) -> tuple[Fleet, tuple[Problem, ...]]:
    """Run a command on all nodes; return what they say, and what went wrong beside it."""
    if command == "collect":
        assert folder is not None
        return asyncio.run(_collect(engine, words, folder))
    return asyncio.run(_run(engine, command, _words(engine, command, words))), ()


def _words(engine: Engine, command: str, words: Sequence[str]) -> Mapping[str, Sequence[str]]:
    plain = [command, *words, "--json"]
    if command != "net":
        return dict.fromkeys(engine.nodes, plain)
    # By options also where a launcher would say it: so it is the same with every engine.
    more = ["--nodes", str(len(engine.nodes)), "--token", secrets.token_hex(8)]
    if not any(word.startswith("--master") for word in words):
        more += ["--master", engine.nodes[0].rpartition("@")[2]]
    return {
        node: [*plain, *more, "--node", str(number)] for number, node in enumerate(engine.nodes)
    }


async def _run(engine: Engine, command: str, words: Mapping[str, Sequence[str]]) -> Fleet:
    if command == "net":
        engine = replace(engine, at_once=max(engine.at_once, len(engine.nodes)))  # all must meet
    waiting: list[Part] = []
    whole = Part()
    async for said in ask(engine, {node: engine.command(row) for node, row in words.items()}):
        # Of net the first node has the report.
        quiet = command == "net" and said.node != engine.nodes[0] and not said.out.strip()
        well = quiet and said.status in (0, 1)
        part = Part(answered=(said.node,)) if well else part_of(said, KINDS[command])
        waiting.append(part)
        if len(waiting) == 64:
            whole = merge([whole, merge_all(waiting)])
            waiting.clear()
    return Fleet(command, engine.name, len(engine.nodes), merge([whole, merge_all(waiting)]))


async def _collect(
    engine: Engine, words: Sequence[str], folder: Path
) -> tuple[Fleet, tuple[Problem, ...]]:
    """Fold the cores of all nodes, then fetch one slim core of each crash."""
    each = dict.fromkeys(engine.nodes, words)
    if engine.name == "dask":  # one storage for all: each task has its share of the files
        from postmortem.fleet.dask import shares

        each = {f"task {i}": share for i, share in enumerate(shares(words))}
        engine = replace(engine, nodes=tuple(each))
    fold = {node: ["core", "--fold", *row, "--json"] for node, row in each.items()}
    seen = await _run(engine, "collect", fold)
    gate = asyncio.Semaphore(8)
    rows = sorted(seen.part.crashes, key=lambda one: (one.count, one.hash))

    async def one(crash: Crash) -> tuple[str, str, int] | Problem:
        async with gate:
            return await _fetch(engine, crash, folder)

    found = await asyncio.gather(*(one(crash) for crash in rows[:_MOST_CRASHES]))
    problems = [row for row in found if isinstance(row, Problem)]
    if len(rows) > _MOST_CRASHES:
        left = len(rows) - _MOST_CRASHES
        problems.append(Problem("collect", f"{left:,} more crashes have no core fetched"))
    kept = tuple(row for row in found if not isinstance(row, Problem))
    return replace(seen, kept=kept), tuple(problems)


async def _fetch(engine: Engine, crash: Crash, folder: Path) -> tuple[str, str, int] | Problem:
    """Make one core slim where it lies, and bring it here."""
    node, path = crash.example
    # A core is no text: it must come from one node alone, without labels before its lines.
    whole = b""
    error = ""
    async for said in ask(replace(engine, nodes=(node,)), {node: engine.fetch(path)}):
        whole, error = said.out, said.error
    where = f"{node}:{path}"
    if not whole.startswith(b"\x7fELF"):
        last = (error.strip().splitlines() or ["nothing came"])[-1]
        return Problem(where, f"its slim core could not be fetched: {last[:200]}")
    name = "".join(char for char in crash.hash if char.isalnum())[:32]
    target = folder / f"core.{name}"
    try:
        with new_file(target) as stream:
            stream.write(whole)
    except OSError as failure:
        return Problem(str(target), f"cannot be written: {failure.strerror}")
    return crash.hash, str(target), len(whole)
