"""The folder that a failed run leaves: all evidence, fit to be sent, with a list of what is in it.

Text is written without secrets: those of the environment and of all command lines are masked
wherever they stand. Cores, which hold the memory of the program, are never packed.
"""

import errno
import json
import os
import re
import shlex
import shutil
import socket
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from postmortem._version import __version__
from postmortem.partial import new_file
from postmortem.readers.bundles import MANIFEST, SCHEMA
from postmortem.readers.present import words_in
from postmortem.readers.regular import open_regular
from postmortem.records import replace
from postmortem.report.redact import Redactor
from postmortem.run.environment import Variables, without_ours
from postmortem.run.explain import Explanation
from postmortem.run.facts import Process, RunFacts
from postmortem.run.outcome import Event, Outcome
from postmortem.run.raises import Raise, read_raises
from postmortem.text import size

_LARGEST_TEXT = 64 << 20
_HOLE = re.compile(rb"\0{8,}")
"""As the reader of such logs takes it; its zeros would be masked, and kept, byte for byte."""
_LARGEST_COPY = 16 << 30
_TOGETHER_SECONDS = 10.0
"""Exceptions of processes without ranks that lie closer together came of one another."""
_RERUN_PREFIXES = (
    "TORCH", "PYTORCH", "NCCL", "CUDA", "GLOO", "OMP_", "MKL_", "MASTER_", "HF_", "TRANSFORMERS_",
    "ACCELERATE_", "PYTHON", "LD_", "XLA_", "UCX_", "FI_",
)  # fmt: skip
_WHAT = {
    "report.txt": "the verdict and what it rests on",
    "endings.txt": "how each process that failed ended, in the order of time",
    "rerun.sh": "runs the command again as it was run",
    "raises": "an uncaught exception: traceback, shapes of tensors in its frames",
    "logs": "what a process said last, as text",
    "stacks": "stacks of the other processes at that moment",
    "boxes": "Python stacks that a crash printed",
    "flight": "a dump of PyTorch's flight recorder",
    "nccl": "warnings of NCCL",
    "numerics": "a flight file of the numerics monitor",
    "gpu": "a core of a GPU",
    "output": "what the command wrote",
    "strace": "system calls",
    "cores": "a core: the memory of a process, not masked; it is left out of the .tar.gz",
}


class Evidence:
    """A folder of evidence that is being made."""

    def __init__(self, path: Path, redactor: Redactor | None) -> None:
        self.path = path
        self._redactor = redactor
        self.problems: list[str] = []

    def text(self, name: str, text: str) -> None:
        """Write a text file, masked; a full disk is noted, not raised."""
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.masked(text), encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            self.problems.append(f"{name}: {error.strerror}")

    def document(self, name: str, document: object) -> None:
        """Write a JSON document, each text in it masked."""
        self.text(name, json.dumps(self._walked(document), indent=1, ensure_ascii=True) + "\n")

    def copy(self, source: Path, name: str) -> None:
        """Copy a file that is no text."""
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_regular(source) as stream, target.open("wb") as copied:
                if os.fstat(stream.fileno()).st_size > _LARGEST_COPY:
                    raise OSError(errno.EFBIG, f"holds more than {size(_LARGEST_COPY)}")
                shutil.copyfileobj(stream, copied)
        except OSError as error:
            self.problems.append(f"{name}: {error.strerror}")

    def masked(self, text: str) -> str:
        """Return a whole text as it may be told: of a private key no single line is known."""
        return text if self._redactor is None else self._redactor.text(text)

    def _walked(self, value: object) -> object:
        if self._redactor is None:
            return value
        if isinstance(value, str):
            return self._redactor.text(value)
        if isinstance(value, dict):
            return {key: self._walked(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._walked(item) for item in value]
        return value


def redactor_of(env: Mapping[str, str], processes: Iterable[Process]) -> Redactor:
    """Return what masks the secrets of a run."""
    redactor = Redactor.from_process(tuple(env.items()), (), (), words_in)
    for one in processes:
        redactor.learn_argv(one.argv)
    return redactor


def make_folder(into: Path | None, pid: int) -> Path | None:
    """Make the folder where it was asked for, here, or where there is room; None: nowhere."""
    # With the host: the first process of a container has the same number in each of them.
    host = "".join(
        one for one in socket.gethostname().partition(".")[0] if one.isalnum() or one == "-"
    )
    name = f"postmortem-{time.strftime('%Y%m%d-%H%M%S')}-{host}-{pid}"
    # Not tempfile.gettempdir(): it raises where no place is writable, as in a read-only container.
    places = [into or Path.cwd(), Path(os.environ.get("TMPDIR") or "/tmp"), Path("/dev/shm")]
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
            path = place / name
            path.mkdir(mode=0o700)
            probe = path / "probe"
            probe.write_bytes(bytes(1 << 16))
            probe.unlink()
        except OSError:
            shutil.rmtree(place / name, ignore_errors=True)
            continue
        return path
    return None


def collect(evidence: Evidence, scratch: Path, facts: RunFacts, outputs: Sequence[Path]) -> None:
    """Put what processes left into the folder, in the forms that the analyses read."""
    _raises(evidence, scratch, facts)
    for one in facts.processes:
        if one.printed.strip():
            evidence.text(f"boxes/{one.label.replace(' ', '')}.txt", one.printed)
    rows = [_ending(one, facts) for one in facts.endings]
    if rows:
        evidence.text("endings.txt", "\n".join(rows) + "\n")
    for path in sorted((scratch / "stacks").glob("*")):
        if path.suffix in (".json", ".txt", ".why"):
            evidence.text(f"stacks/{path.name}", _tail(path))
    for part in ("flight", "gpu", "numerics"):
        for path in sorted((scratch / part).glob("*")):
            evidence.copy(path, f"{part}/{path.name}")
    for path in sorted((scratch / "nccl").glob("*")):
        if path.stat().st_size:
            evidence.text(f"nccl/{path.name}", _tail(path))
    for path in outputs:
        evidence.text(f"output/{path.name}", _tail(path))
    for path in sorted((scratch / "strace").glob("*")) if (scratch / "strace").is_dir() else ():
        evidence.text(f"strace/{path.name}", _tail(path))


def _raises(evidence: Evidence, scratch: Path, facts: RunFacts) -> None:
    """Write each exception as it was told, and as the log of its process."""
    found = read_raises(scratch / "raises", evidence.problems)
    ranks = {one.pid: one.rank for one in facts.processes}
    found = [replace(one, rank=ranks.get(one.pid)) if one.rank is None else one for one in found]
    for one in found:
        evidence.document(f"raises/{one.file}", {**one.document, "rank": one.rank})
    # Before anything is clipped: a credential that was cut is not known as one.
    found = [replace(one, message=evidence.masked(one.message)) for one in found]
    logs: dict[str, list[str]] = {}
    for one in _told(found, facts):
        log = f"rank{one.rank}.log" if one.rank is not None else f"pid-{one.pid}.log"
        head = {
            "ignored": "Exception ignored in:\n",
            "thread": f"Exception in thread {one.thread or 'Thread-1'}:\n",
        }.get(one.where, "")
        logs.setdefault(log, []).append(head + one.traceback)
        if one.is_final or one.rank is None:
            facts.log_times.setdefault(log, one.time)
    facts.raises = found
    for log, texts in logs.items():
        evidence.text(f"logs/{log}", "\n".join(texts))


def _told(found: list[Raise], facts: RunFacts) -> list[Raise]:
    """Return the exceptions that tell why: those of ranks, else the one that began the end."""
    ranked = [one for one in found if one.rank is not None and one.where != "last"]
    if ranked:
        return ranked
    ended = {one.pid for one in facts.processes if one.failed}
    mine = [one for one in found if one.pid in ended]
    final = [one for one in mine if one.is_final]
    if not final:
        # A thread's, or the last that a program kept which handles its own.
        return [one for one in mine if one.where in ("thread", "last")][-1:]
    together = final[-1:]
    for one in reversed(final[:-1]):
        if together[0].time - one.time < _TOGETHER_SECONDS:
            together = [one, *together]
    return [next((one for one in together if not one.is_of_others), together[0])]


def _ending(one: Process, facts: RunFacts) -> str:
    """Return a line of `endings.txt`; `logs` and `triage` know it (`run-ended`)."""
    of = f" of {facts.world_size}" if facts.world_size else ""
    who = f"{one.label}{of} (pid {one.pid})" if one.rank is not None else one.label
    if not facts.ranks and facts.first_failure is not None and one.pid == facts.first_failure.pid:
        who = f"the program (pid {one.pid})"
    memory = ", its memory limit was used up" if one.memory_killed else ""
    stopped = ", after another had failed or time was over" if one.was_stopped else ""
    return f"{who} {one.how}{memory}{stopped}"


def _tail(path: Path) -> str:
    """Return the end of a text file, which may be larger than anybody reads, without its holes."""
    try:
        with open_regular(path) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _LARGEST_TEXT))
            text = stream.read(_LARGEST_TEXT)
        return _HOLE.sub(b"", text).decode("utf-8", "surrogateescape")
    except OSError as error:
        return f"cannot be read: {error.strerror}\n"


def write_rerun(
    evidence: Evidence, command: Sequence[str], env: Mapping[str, str], variables: Variables
) -> None:
    """Write a script that runs the command again, as it was."""
    own = without_ours(env, variables.added)
    redactor = Redactor.from_process(tuple(own.items()), (), command)
    masked = dict(redactor.env(tuple(own.items())))
    lines = ["#!/bin/sh", f"cd {shlex.quote(str(Path.cwd()))} || exit"]
    for name in sorted(own):
        if not name.startswith(_RERUN_PREFIXES) or not name.isidentifier():
            continue
        if masked[name] != own[name]:
            lines.append(f"# {name} held a secret: export it yourself")
        else:
            lines.append(f"export {name}={shlex.quote(own[name])}")
    words = redactor.argv(command)
    lines.append(f'exec {" ".join(shlex.quote(word) for word in words)} "$@"')
    evidence.text("rerun.sh", "\n".join(lines) + "\n")
    path = evidence.path / "rerun.sh"
    if path.exists():
        path.chmod(0o700)


def write_manifest(
    evidence: Evidence,
    command: Sequence[str],
    outcome: Outcome,
    facts: RunFacts,
    explanations: Sequence[Explanation],
    about: Mapping[str, object],
) -> None:
    """Write what the folder holds, and all that is known of the processes."""
    best = explanations[0]
    evidence.document(
        MANIFEST,
        {
            "schema": SCHEMA,
            "tool": {"version": __version__},
            "verdict": best.verdict,
            "explained_by": best.kind,
            "conclusion": best.conclusion,
            "command": list(command),
            "cwd": str(Path.cwd()),
            "hostname": socket.gethostname(),
            "status": outcome.status,
            "signal": outcome.signal,
            "began": outcome.began,
            "ended": outcome.ended,
            "timed_out": outcome.timed_out,
            "stopped_by": outcome.stopped_by,
            **about,
            "processes": [_row(one) for one in facts.processes],
            "events": [_event(one) for one in outcome.events[:10_000]],
            "files": _files(evidence.path),
            "problems": [*facts.problems, *evidence.problems],
            # Not a file of its own: what is concluded must not be taken for evidence once more.
            "report": json.loads(best.document) if best.document else None,
        },
    )


def _row(one: Process) -> dict[str, object]:
    return {
        "pid": one.pid,
        "ppid": one.ppid,
        "argv": list(one.argv),
        "rank": one.rank,
        "local_rank": one.local_rank,
        "began": one.began,
        "ended": one.ended,
        "exit": {"code": one.code, "signal": one.signal} if one.ended is not None else None,
        "raised": one.raised,
        "stopped_by_launcher": one.was_stopped,
        "memory_killed": one.memory_killed,
        "peak_rss_bytes": one.peak_rss or None,
        "memory": [
            {"time": when, "rss_bytes": rss, "state": state} for when, rss, state in one.memory
        ],
    }


def _event(one: Event) -> dict[str, object]:
    return {
        "time": one.time,
        "kind": one.kind,
        "pid": one.pid,
        "what": one.what,
        "file": f"raises/{one.file}" if one.file else None,
    }


def _files(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            what = _WHAT.get(name) or _WHAT.get(name.split("/")[0], "")
            rows.append({"path": name, "what": what, "size_bytes": path.stat().st_size})
    return rows


def pack(folder: Path) -> Path:
    """Return the folder as one .tar.gz beside it, without cores; raises OSError."""
    target = folder.with_name(folder.name + ".tar.gz")
    cores = f"{folder.name}/cores"
    with new_file(target, mode=0o600) as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.add(folder, folder.name, filter=lambda one: None if one.name == cores else one)
    return target
