"""What logs of many ranks show of what known bugs ask for."""

from collections.abc import Iterator

from postmortem.diagnose.known_bugs import SeenStack, Sight
from postmortem.facts.nccl import Nccl
from postmortem.facts.rank_logs import LogFailure, RankLogs
from postmortem.facts.versions import Versions

_MOST = 4096
"""Texts of each kind that are looked at."""


def sight_of(logs: RankLogs, nccl: Nccl | None, versions: Versions) -> Sight:
    """Return what bugs may ask for."""
    failures = tuple(f for f in logs.failures if f.kind != "ignored")[:_MOST]
    return Sight(
        stacks=tuple(_stacks(logs, failures)),
        texts=tuple(_texts(logs, failures, nccl)),
        messages=tuple(_messages(logs, failures)),
        signals=tuple(sorted({one.signal for one in logs.exits if one.signal})),
        variables=dict(versions.variables),
    )


def _place(file: str, line: int) -> str:
    return f"{file.rpartition('/')[2]}:{line}"


def _texts(
    logs: RankLogs, failures: tuple[LogFailure, ...], nccl: Nccl | None
) -> Iterator[tuple[str, str]]:
    for failure in failures:
        where = _place(failure.file, failure.line)
        for said in (failure.said, *failure.causes, *failure.parts):
            yield where, f"{said.exception}: {said.message}"
    for remark in logs.remarks[:_MOST]:
        yield _place(remark.file, remark.line), remark.text
    for event in logs.kernel.events[:_MOST]:
        yield _place(event.file, event.line), event.text
    for words, _ in nccl.warnings if nccl is not None else ():
        yield "NCCL", words
    for writer in logs.writers[:_MOST]:
        for words in writer.last_words:
            yield f"last lines of {writer.label}", words


def _messages(logs: RankLogs, failures: tuple[LogFailure, ...]) -> Iterator[tuple[str, str, str]]:
    for failure in failures:
        for said in (failure.said, *failure.causes):
            for match in said.matches:
                yield match.id, _place(failure.file, failure.line), said.words
    for remark in logs.remarks[:_MOST]:
        for match in remark.matches:
            yield match.id, _place(remark.file, remark.line), remark.text


def _stacks(logs: RankLogs, failures: tuple[LogFailure, ...]) -> Iterator[SeenStack]:
    for failure in failures:
        native = tuple(frame.function for frame in failure.native)
        python = tuple(f"{f.file} {f.function}" for f in reversed(failure.frames))
        if native or python:
            modules = tuple(f.module.rpartition("/")[2] for f in failure.native if f.module)
            yield SeenStack(_place(failure.file, failure.line), native + python, modules, True)
    for one in logs.stacks if logs.stacks is not None else ():
        frames = one.thread.frames
        yield SeenStack(
            one.members[0].where,
            tuple(
                f"{f.file} {f.function}" if f.kind == "python" and f.file else f.function
                for f in frames
            ),
            tuple(f.module.rpartition("/")[2] for f in frames if f.module),
        )
