"""One run of a command, from its environment to the folder that its failure leaves."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
import time
from collections.abc import Mapping
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem import underway
from postmortem.records import record
from postmortem.run.environment import HOOK, NUMERICS, Variables, evidence_variables
from postmortem.run.keeping import Keeper
from postmortem.run.memory import MemoryLimit, kills_here
from postmortem.run.options import RunOptions
from postmortem.run.outcome import Outcome
from postmortem.run.scratch import Scratch, make_scratch
from postmortem.run.supervise import Supervisor

if TYPE_CHECKING:
    from postmortem.readers.child import Child, Ending

_EXPLAIN_SECONDS = 180.0
_LOOK_SECONDS = 0.25
_DEBUG = "POSTMORTEM_DEBUG=1 says why"


@record
class Finished:
    """What a run left."""

    outcome: Outcome
    verdict: str | None = None
    """None where there is nothing to explain."""
    signature: str | None = None
    """What is the same in failures that are the same."""
    text: str = ""
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Of the first traceback, for a comparison."""


@record
class Output:
    """A regular file that the command writes to, and where it began to; number 0: its copy."""

    number: int
    path: str
    start: int


@record
class Failure:
    """A run that failed, with all that its explanation needs."""

    options: RunOptions
    outcome: Outcome
    scratch: Scratch
    variables: Variables
    env: Mapping[str, str]
    """What it ran with."""
    outputs: tuple[Output, ...]
    kills: int
    """How many processes the kernel ended for want of memory meanwhile."""
    folder: Path | None
    """Where the evidence goes; None if no folder could be made."""


def run_once(
    options: RunOptions,
    *,
    extra: Mapping[str, str] | None = None,
    keep_files: bool = False,
    limit: MemoryLimit | None = None,
    quiet: bool = False,
) -> Finished:
    """Run a command once, and explain its failure; raises CommandError if it cannot be started.

    `extra` is set in its environment; `keep_files` leaves our own standard input and output open,
    for a run that comes after; `quiet` writes no word of what is missing.
    """
    scratch, why = make_scratch()
    if scratch is None and not quiet:
        complain(f"no place for evidence ({why}); running without")
    command, env = list(options.command), dict(os.environ)
    env.update(extra or {})
    variables = Variables({})
    if scratch is not None:
        variables = evidence_variables(env, scratch.path, os.getpid())
        if not HOOK.is_dir():  # imported from a zip
            variables = Variables({})
        env.update(variables.added)
        if options.numerics:
            env.setdefault(NUMERICS, str(scratch.path / "numerics"))
        if options.strace is not None:
            command = [*strace_command(options.strace, scratch), *command]
    if limit is not None:
        command = [*limit.prefix, *command]
    outputs = _outputs()
    kills = kills_here(limit)
    try:
        keeper = _keeper(scratch) if options.keep_output else None
        try:
            outcome = Supervisor(
                command,
                env,
                scratch,
                timeout=options.timeout,
                cgroup=limit.cgroup if limit is not None else None,
                keep_files=keep_files,
                helpers=frozenset((keeper.pid,) if keeper is not None else ()),
            ).run()
        finally:
            if keeper is not None:
                keeper.finish()
                outputs += (Output(0, str(keeper.path), 0),)
        kills = max(0, kills_here(limit) - kills)
        if scratch is None:
            return Finished(outcome)
        if options.numerics and not any(Path(env[NUMERICS]).glob("*")):
            complain(
                "--numerics: nothing was watched (no model of PyTorch trained, or not in a "
                "Python that has postmortem)"
            )
        if not outcome.failed:
            _remove_cores(outcome, scratch)
            return Finished(outcome)
        from postmortem.run.folder import make_folder

        folder = make_folder(options.into, outcome.pid)
        return _explained(
            Failure(options, outcome, scratch, variables, env, outputs, kills, folder)
        )
    finally:
        if scratch is not None:
            scratch.remove()


def complain(what: str) -> None:
    """Write one line to standard error, if that is possible."""
    try:
        print(f"postmortem: {what}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return


def strace_command(query: str, scratch: Scratch) -> list[str]:
    """Return what is put before a command to record what answers a query."""
    from postmortem.facts.call_query import parse
    from postmortem.knowledge.record_hint import record_hint

    folder = scratch.path / "strace"
    folder.mkdir()
    hint = record_hint([parse(query)] if query else []).split()
    words = [word for word in hint[1:] if word != "COMMAND"]
    words[words.index("strace.txt")] = str(folder / "strace.txt")
    # Its tracer stands aside (-D): the command stays our child, and signals go to it alone.
    return ["strace", "-D", *words, "--"]


def _outputs() -> tuple[Output, ...]:
    """Return the regular files that standard output and error go to: they can be read later."""
    found: dict[tuple[int, int], Output] = {}
    for number in (2, 1):
        try:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                continue
            path = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
            found.setdefault((status.st_dev, status.st_ino), Output(number, path, status.st_size))
        except OSError:
            continue
    return tuple(found.values())


def _keeper(scratch: Scratch | None) -> Keeper | None:
    """Return what keeps a copy of the output, or None where that cannot be had."""
    if scratch is None:
        return None
    try:
        return Keeper(scratch.path / "written.log")
    except OSError as error:
        complain(f"--keep-output: nothing is kept ({error.strerror})")
        return None


def _explained(failure: Failure) -> Finished:
    """Explain a failure in a child: whatever becomes of it, the command's status is the answer.

    What it reads was written by the command: a file that is its end is left out by the next one.
    """
    from postmortem.readers.child import MOST_TRIES, fork, leave_out
    from postmortem.readers.child_limits import limit, limits_for
    from postmortem.render.safe import line

    limits = limits_for((), complain)
    page = mmap(-1, underway.PAGE_BYTES)
    until = time.monotonic() + _EXPLAIN_SECONDS
    for _ in range(MOST_TRIES):
        pipe, end = os.pipe2(os.O_CLOEXEC)
        child = fork(page)
        if child is None:
            limit(limits)
            _work(end, failure)
            os._exit(0)
        os.close(end)
        heard, ending = _heard(pipe, child, until)
        os.close(pipe)
        if ending.code is not None or ending.path is None:  # it ended by itself, or of no file
            break
        leave_out(ending.path, ending)
    try:
        told = json.loads(heard)
    except ValueError:
        why = f"{ending.path or 'the analysis'} {ending.why}" if ending.why else _DEBUG
        complain(f"the failure could not be explained: {line(why)}")
        if failure.folder is not None:
            complain(f"what was collected: {failure.folder}/")
        return Finished(failure.outcome)
    return Finished(
        failure.outcome,
        verdict=told["verdict"],
        signature=told["signature"],
        text=told["text"],
        folder=Path(told["folder"]) if told["folder"] else None,
        notes=tuple(told["notes"]),
        words=tuple(told["words"]),
    )


def _heard(pipe: int, child: Child, until: float) -> tuple[bytes, Ending]:
    """Return what the child says, or what it has said when its time is over, and how it ended."""
    from postmortem.readers.child import Ending

    heard = b""
    ending: Ending | None = None
    try:
        while ending is None:
            if select.select([pipe], [], [], _LOOK_SECONDS)[0]:
                data = os.read(pipe, 1 << 16)
                if not data:
                    break
                heard += data
            elif time.monotonic() > until:
                ending = Ending(why=f"had not ended after {_EXPLAIN_SECONDS:g} s")
            else:
                ending = child.look()
        if ending is None:  # the pipe is closed, and it about to end
            ending = child.wait()
    except KeyboardInterrupt:
        complain("interrupted; what was collected may not be whole")
        ending = Ending()
    finally:
        child.kill()
    return heard, ending


def _work(pipe: int, failure: Failure) -> None:
    """Explain, and tell the parent."""
    try:
        from postmortem.run.report import make_report

        data = json.dumps(make_report(failure)).encode()
        while data:
            data = data[os.write(pipe, data) :]
    except MemoryError:
        underway.out_of_memory()
    except Exception:
        if os.environ.get("POSTMORTEM_DEBUG", "0") not in ("", "0"):
            import traceback

            traceback.print_exc()


def _remove_cores(outcome: Outcome, scratch: Scratch) -> None:
    """Remove the cores that are there only because we raised the limit, and nothing failed."""
    crashed = any(one.signal is not None for one in outcome.members)
    if not outcome.raised_core_limit or not crashed:
        return
    from postmortem.run.facts import facts_of
    from postmortem.run.report import cores_of

    for path in cores_of(facts_of(outcome, scratch.path), wait_seconds=0.0).values():
        path.unlink(missing_ok=True)
