"""The report of a job's logs, block by block."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from postmortem.diagnose.ranks.attribution import Suspect
from postmortem.diagnose.ranks.batch_jobs import counts
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.facts.batch_jobs import BatchJob
from postmortem.facts.rank_logs import LogFailure
from postmortem.facts.rank_sets import rank_words
from postmortem.patterns import Pattern
from postmortem.present.folding import folded_traceback
from postmortem.present.ranks.attempts import attempt_rows
from postmortem.present.ranks.flights import flight_blocks
from postmortem.present.ranks.jam import jam_blocks
from postmortem.present.ranks.network import network_rows
from postmortem.present.ranks.stacks import stack_blocks
from postmortem.present.ranks.view import RankLogsView, SameTraceback
from postmortem.report.blocks import Block, Excerpt, KeyValues, Note, Table, Tone
from postmortem.text import counted, cut

_LINES_SHOWN = 24
_GROUPS_SHOWN = 4
_PARTIES_SHOWN = 8
_LONGEST = 240
_NAMES_SHOWN = 8


def rank_logs_blocks(view: RankLogsView, *, verbose: bool) -> tuple[Block, ...]:
    """Return the blocks in the order in which they are read."""
    blocks: list[Block] = [*jam_blocks(view, verbose=verbose), *_parties(view, verbose)]
    blocks += _first(view, verbose)
    blocks += flight_blocks(view.logs, verbose=verbose)
    blocks += stack_blocks(view.logs, verbose=verbose)
    blocks += _others(view, verbose)
    blocks += _said_errors(view, verbose)
    blocks += _jobs(view.logs.jobs, verbose)
    blocks += _about(view, verbose)
    return tuple(blocks)


def _parties(view: RankLogsView, verbose: bool) -> Iterator[Block]:
    blame = view.blame
    rows: list[tuple[str, str]] = []
    if blame.candidates:
        for i, party in enumerate(blame.candidates[: None if verbose else _PARTIES_SHOWN]):
            rows.append(("candidates" if i == 0 else "", f"{party.words}: {_cut(party.why)}"))
    for i, party in enumerate(blame.also[: None if verbose else _PARTIES_SHOWN]):
        said = f"{party.words} failed by itself: {_cut(party.why)}"
        rows.append(("also" if i == 0 else "", said))
    rows += attempt_rows(view.attempts, verbose=verbose)
    rows += _victims(blame.victims, verbose)
    silent = _silent(view)
    if silent:
        rows.append(("silent", silent))
    wrong = set(blame.blamed) - {party.rank for party in blame.first}
    if wrong and (blame.first or blame.candidates):
        names = ", ".join(str(rank) for rank in sorted(wrong)[:8])
        rows.append(("torchrun", f"calls rank {names} the root cause"))
    if rows:
        yield KeyValues(tuple(rows))


def _victims(victims: tuple[Suspect, ...], verbose: bool) -> list[tuple[str, str]]:
    by_why: dict[str, list[Suspect]] = {}
    for party in victims:
        by_why.setdefault(_NUMBER.sub("#", party.why), []).append(party)
    rows: list[tuple[str, str]] = []
    for parties in list(by_why.values())[: None if verbose else _PARTIES_SHOWN]:
        why = parties[0].why
        why += ", and similar" if len({party.why for party in parties}) > 1 else ""
        names = _names((p.rank, p.label) for p in parties)
        rows.append(("" if rows else "victims", f"{names}   {_cut(why)}"))
    left = len(by_why) - len(rows)
    if left > 0:
        rows.append(("", f"{counted(left, 'more kind')}: -v shows them"))
    return rows


_NUMBER = Pattern(r"\d+")
_SOURCE = Pattern(r"\[(?:enforce fail at )?/[\w./+-]+:\d+\] ")
"""Where in its own sources a library raised, which helps nobody here."""


def _silent(view: RankLogsView) -> str | None:
    size = view.logs.world_size
    if size is None or view.blame.how is CauseKind.NOTHING:
        return None
    ranks = (view.logs.who(f.writer).rank for f in view.logs.failures)
    said = {rank for rank in ranks if rank is not None and rank < size}
    if not said:
        return None
    silent = (str(rank) for rank in range(size) if rank not in said)
    shown = ", ".join(islice(silent, 12))
    return f"{size - len(said)} of {size}" + (f": {shown}" if shown else "")


def _first(view: RankLogsView, verbose: bool) -> Iterator[Block]:
    if view.first is not None:
        if view.first.kind != "exception":
            yield from _before(view, view.first)
        yield _excerpt(view.first, f"traceback of {view.blame.first[0].words}", verbose)
        return
    for party in (*view.blame.first, *view.blame.candidates)[:2]:
        writer = next((w for w in view.logs.writers if w.rank == party.rank), None)
        if party.rank is not None and writer is not None and any(writer.last_words):
            lines = tuple((None, _cut(word)) for word in writer.last_words if word.strip())
            yield Excerpt(f"last lines of {party.words}", lines)


def _before(view: RankLogsView, failure: LogFailure) -> Iterator[Block]:
    """What a rank wrote last before an end that has no traceback of its own."""
    rank = view.blame.first[0].rank
    writer = next((w for w in view.logs.writers if rank is not None and w.rank == rank), None)
    words: Iterable[str] = failure.before
    if writer is not None and writer.last_words:
        words = [word for word in writer.last_words if word not in failure.text]
    lines = tuple((None, _cut(word)) for word in words if word.strip(" -="))
    if lines:
        yield Excerpt("before it", lines)


def _excerpt(failure: LogFailure, title: str, verbose: bool) -> Excerpt:
    text = folded_traceback(failure.text.split("\n"))
    lines: list[tuple[int | None, str]] = [(None, _cut(line)) for line in text if line.strip(" ^~")]
    if len(lines) > _LINES_SHOWN and not verbose:
        left = len(lines) - _LINES_SHOWN
        half = _LINES_SHOWN // 3
        rest = lines[-(_LINES_SHOWN - half) :]
        lines = [*lines[:half], (None, f"… {left} more lines (-v shows them)"), *rest]
    return Excerpt(f"{title}, {failure.file}:{failure.begin_line}", tuple(lines))


def _others(view: RankLogsView, verbose: bool) -> Iterator[Block]:
    shown = [same for same in view.tracebacks if same.failure is not view.first]
    rows = [
        (str(same.count), _whose(view, same), _cut(same.failure.words))
        for same in shown[: None if verbose else _GROUPS_SHOWN]
    ]
    if rows:
        yield Table(("count", "ranks", "error"), tuple(rows), "errors", right_aligned=(0,))
    left = len(shown) - len(rows)
    if left > 0:
        yield Note(f"{counted(left, 'more error')}: -v or --json shows them", Tone.QUIET)


def _said_errors(view: RankLogsView, verbose: bool) -> Iterator[Block]:
    """Lines that call themselves errors, where nothing in the logs failed by any other sign."""
    if view.blame.how is not CauseKind.NOTHING or view.tracebacks:
        return
    kinds: dict[str, tuple[str, str]] = {}
    for remark in view.logs.remarks:
        if _ERROR.search(remark.text):
            place = f"{remark.file.rsplit('/', 1)[-1]}:{remark.line}"
            kinds.setdefault(_NUMBER.sub("#", remark.text), (place, _cut(remark.text)))
    rows = list(kinds.values())
    if rows:
        shown = tuple(rows[: None if verbose else _GROUPS_SHOWN])
        yield Table(("where", "line"), shown, "lines that mention an error, and no end")
    if len(rows) > _GROUPS_SHOWN and not verbose:
        yield Note(f"{counted(len(rows) - _GROUPS_SHOWN, 'more kind')}: -v shows them", Tone.QUIET)


_ERROR = Pattern(
    r"\b(?:[A-Z]\w*(?:Error|Exception)|(?:CUDA|HIP|NCCL) error)\b: ?\S|\bFATAL\b|^F\d{4} "
)


def _whose(view: RankLogsView, same: SameTraceback) -> str:
    return _names((view.logs.who(w).rank, view.logs.who(w).label) for w in same.writers)


def _names(parties: Iterable[tuple[int | None, str]]) -> str:
    """Return ranks as ``0-3, 7``, and labels of those whose rank is not known."""
    ranks, names = [], []
    for rank, label in parties:
        if rank is None:
            names.append(label)
        else:
            ranks.append(rank)
    shown = ([rank_words(ranks)] if ranks else []) + names
    return ", ".join(shown[:_NAMES_SHOWN]) + (" …" if len(shown) > _NAMES_SHOWN else "")


def _jobs(jobs: tuple[BatchJob, ...], verbose: bool) -> Iterator[Block]:
    """Return what became of the newest jobs of a batch system, the last one first."""
    if len(jobs) > 1:
        shown = [*reversed(jobs)][: None if verbose else _PARTIES_SHOWN]
        rows = tuple((job.id, f"{job.line}", _cut(job.said)) for job in shown)
        yield Table(("job", "line", "what became of it"), rows, f"jobs: {counts(jobs)}", (1,))


def _about(view: RankLogsView, verbose: bool) -> Iterator[Block]:
    logs = view.logs
    rows: list[tuple[str, str]] = []
    ranks = [w for w in logs.writers if not w.shared]
    if ranks:
        hosts = Counter(w.host for w in ranks if w.host is not None)
        on = f" on {counted(len(hosts), 'host')}" if hosts else ""
        of = f" of {logs.world_size} ({logs.world_source})" if logs.world_size else ""
        rows.append(("written by", f"{counted(len(ranks), 'rank')}{of}{on}"))
    ends = Counter(f"killed by {e.signal}" if e.signal else e.exited for e in logs.exits)
    if ends:
        told = ", ".join(f"{count} {how}" for how, count in ends.most_common(5))
        rows.append(("endings", told))
    rows += network_rows(logs.nccl)[: None if verbose else 5]
    if verbose:
        for reason, files in view.left_out_by_reason().items():
            names = ", ".join(files[:_NAMES_SHOWN]) + (" …" if len(files) > _NAMES_SHOWN else "")
            rows.append(("left out", f"{counted(len(files), 'file')} ({reason}): {names}"))
    if rows:
        yield KeyValues(tuple(rows))


def _cut(text: str) -> str:
    first = _SOURCE.sub("", text.split("\n", 1)[0], 1)
    return cut(first, _LONGEST)
