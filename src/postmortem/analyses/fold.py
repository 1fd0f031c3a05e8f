"""``postmortem core --fold``: from many cores to the few crashes that they are."""

import contextlib
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from postmortem.analyses.core import CoreOptions, analyse
from postmortem.background import side_by_side
from postmortem.diagnose.stacks.fold import FoldedCore, folded_core, folds, same_crash
from postmortem.errors import DebuggerError, EvidenceError
from postmortem.facts.source import Problem
from postmortem.present.core.fold_blocks import cores_report, no_core
from postmortem.readers.corelist import find_cores
from postmortem.readers.opening import Progress, is_packed, terminations_unwind
from postmortem.records import replace
from postmortem.report.model import Report

_MOST_THREADS = 4
_PROGRESS_SECONDS = 2.0


def fold_cores(
    named: Sequence[Path], options: CoreOptions, progress: Progress | None = None
) -> Report:
    """Return one report on all cores; raises EvidenceError when none of them can be read.

    Each is read as `analyse` does, a few at a time, and only its row is kept. Packed cores are
    unpacked one at a time, so that the disk has to hold one.
    """
    found = find_cores(named)
    options = replace(options, shown=replace(options.shown, blocks=False))
    with terminations_unwind():
        read = _read_all(found.paths, options, progress)
    cores = [one for one in read if isinstance(one, FoldedCore)]
    problems = [*found.problems, *(one for one in read if isinstance(one, Problem))]
    if not cores:
        raise no_core(named, problems)
    kept, copies = same_crash(cores)
    for path, original in copies.items():
        problems.append(Problem(path, f"is the same crash as {original}: counted once"))
    sources, unread = [core.source for core in cores], len(read) - len(cores)
    return cores_report(folds(kept), sources, problems, unread, verbose=options.shown.verbose)


def _read_all(
    paths: Sequence[Path], options: CoreOptions, progress: Progress | None
) -> list[FoldedCore | Problem]:
    read: list[FoldedCore | Problem] = []
    told = time.monotonic()
    work = partial(_read, options=options, unpacking=threading.Lock())
    for one in side_by_side(work, paths, most=_MOST_THREADS):
        read.append(one)
        if progress is not None and time.monotonic() - told > _PROGRESS_SECONDS:
            told = time.monotonic()
            progress(f"{len(read):,} of {len(paths):,} cores read")
    return read


def _read(path: Path, options: CoreOptions, unpacking: threading.Lock) -> FoldedCore | Problem:
    try:
        with unpacking if is_packed(path) else contextlib.nullcontext():
            report = analyse(path, options)
        return folded_core(str(path), path.stat().st_mtime, report)
    except (EvidenceError, DebuggerError) as error:
        return Problem(str(path), error.what, error.hint)
    except OSError as error:
        return Problem(str(path), error.strerror or str(error))
    except Exception as error:  # one core that we fail on must not take the others with it
        what = f"unexpected {type(error).__name__}: {error}"
        hint = "this is a bug of postmortem: please report it with this core"
        return Problem(str(path), what[:300], hint)
