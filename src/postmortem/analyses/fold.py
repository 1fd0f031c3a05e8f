"""``postmortem core --fold``: from many cores to the few crashes that they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.analyses.core import CoreOptions, analyse
from postmortem.background import side_by_side
from postmortem.diagnose.stacks.fold import FoldedCore, diagnosis_of, folded_core, folds, same_crash
from postmortem.errors import DebuggerError, EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.present.core.fold_blocks import bounded, fold_blocks, fold_highlights, no_core
from postmortem.present.core.fold_body import fold_body
from postmortem.present.headline.cores import headline
from postmortem.readers.corelist import find_cores
from postmortem.readers.opening import Progress, is_packed, terminations_unwind
from postmortem.records import record, replace
from postmortem.report.model import Report, ordered
from postmortem.text import counted

if TYPE_CHECKING:
    import threading


_MOST_THREADS = 4
_PROGRESS_SECONDS = 2.0


@record
class _Outcome:
    """What became of one core: a row, or why there is none."""

    core: FoldedCore | None = None
    source: Source | None = None
    problem: Problem | None = None


def fold_cores(
    named: Sequence[Path], options: CoreOptions, progress: Progress | None = None
) -> Report:
    """Return one report on all cores; raises EvidenceError when none of them can be read.

    Each is read as `analyse` does, a few at a time, and only its row is kept. Packed cores are
    unpacked one at a time, so that the disk has to hold one.
    """
    found = find_cores(named)
    problems = list(found.problems)
    with terminations_unwind():
        outcomes = _read_all(
            found.paths, replace(options, shown=replace(options.shown, blocks=False)), progress
        )
    problems += [o.problem for o in outcomes if o.problem is not None]
    kept, copies = same_crash([o.core for o in outcomes if o.core is not None])
    if not kept:
        raise no_core(named, problems)
    unread = sum(o.core is None for o in outcomes)
    problems += [
        Problem(path, f"is the same crash as {original}: counted once")
        for path, original in copies.items()
    ]
    crashes = folds(kept)
    return Report(
        kind="cores",
        inputs=tuple(o.source for o in outcomes if o.source is not None),
        verdict=headline(crashes),
        failed=any(core.failed for core in kept),
        diagnoses=ordered(diagnosis_of(fold) for fold in crashes if fold.example.diagnosis),
        blocks=fold_blocks(crashes, verbose=options.shown.verbose),
        body=fold_body(crashes, unread),
        problems=bounded(problems),
        footer=(f"{counted(len(kept), 'core')} read",),
        highlights=fold_highlights(crashes),
    )


def _read_all(
    paths: Sequence[Path], options: CoreOptions, progress: Progress | None
) -> list[_Outcome]:
    import threading
    import time

    unpacking = threading.Lock()
    outcomes: list[_Outcome] = []
    told = time.monotonic()
    work = partial(_read, options=options, unpacking=unpacking)
    for outcome in side_by_side(work, paths, most=_MOST_THREADS):
        outcomes.append(outcome)
        if progress is not None and time.monotonic() - told > _PROGRESS_SECONDS:
            told = time.monotonic()
            progress(f"{len(outcomes):,} of {len(paths):,} cores read")
    return outcomes


def _read(path: Path, options: CoreOptions, unpacking: threading.Lock) -> _Outcome:
    try:
        if is_packed(path):
            with unpacking:
                report = analyse(path, options)
        else:
            report = analyse(path, options)
        return _Outcome(folded_core(str(path), path.stat().st_mtime, report), report.inputs[0])
    except (EvidenceError, DebuggerError) as error:
        what = getattr(error, "what", None) or str(error)
        return _Outcome(problem=Problem(str(path), what, error.hint))
    except OSError as error:
        return _Outcome(problem=Problem(str(path), error.strerror or str(error)))
    except Exception as error:  # one core that we fail on must not take the others with it
        what = f"unexpected {type(error).__name__}: {error}"
        hint = "this is a bug of postmortem: please report it with this core"
        return _Outcome(problem=Problem(str(path), what[:300], hint))
