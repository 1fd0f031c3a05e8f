"""Imports a module in a child, and reads what it told and how it ended.

What runs is the module's own code, with the rights of the caller: it is what the caller's program
would run. Nothing of it is imported here.
"""

import ast
import difflib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from postmortem.errors import EvidenceError
from postmortem.facts.importing import Cost, Importing, Raised, Shadow
from postmortem.readers.known_text import with_matches
from postmortem.readers.siginfo import signal_name

_MOST_BYTES = 16 << 20
_MOST_LINE = 1 << 20
_GRACE_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_MOST_COSTS = 40
_TIME = re.compile(r"^import time:\s+(\d+) \|\s+(\d+) \|\s*(\S+)$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.{1,400})", line (\d{1,9}) in (\S{1,200})', re.MULTILINE)


def import_in_child(name: str, *, python: str | None = None, seconds: float) -> Importing:
    """Return what came of ``import NAME``; raises EvidenceError where it cannot be tried."""
    executable = python or sys.executable
    source = Path(__file__).with_name("import_probe.py").read_text()
    began = time.monotonic()
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
        words = [executable, "-X", "importtime", "-c", source, name, str(told.fileno())]
        try:
            child = subprocess.Popen(
                [*words, str(seconds)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                pass_fds=(told.fileno(),),
            )
        except OSError as error:
            raise EvidenceError(executable, f"cannot be started: {error.strerror}") from error
        late = _wait(child, seconds + _GRACE_SECONDS, (told.fileno(), said.fileno()))
        taken = time.monotonic() - began
        rows = list(_rows(_read(told)))
        text = _read(said)
    code = child.returncode
    try:
        return _importing(name, executable, rows, text, code, taken, seconds, late=late)
    except (LookupError, TypeError, ValueError) as error:
        # The module has its descriptor, too, and may have told anything.
        raise EvidenceError(executable, f"gave an unreadable answer: {error}"[:300]) from error


def _wait(child: subprocess.Popen[bytes], seconds: float, outputs: Sequence[int]) -> bool:
    """Return whether it had to be killed, for it did not even end itself.

    What it writes beyond what is read is let go meanwhile: it may write for as long as it runs.
    """
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_LOOK_SECONDS)
                return False
            for output in outputs:
                if os.fstat(output).st_size > _MOST_BYTES:
                    os.ftruncate(output, _MOST_BYTES)
        return True
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _read(stream: Any) -> str:
    stream.seek(0)
    data: bytes = stream.read(_MOST_BYTES)
    return data.decode("utf-8", "replace")


def _rows(text: str) -> Iterator[Mapping[str, Any]]:
    """Return what the child told; a line that was cut off is none."""
    for line in text.splitlines():
        try:
            row = ast.literal_eval(line[:_MOST_LINE])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(row, dict):
            yield row


def _importing(
    name: str,
    executable: str,
    rows: list[Mapping[str, Any]],
    text: str,
    code: int,
    taken: float,
    limit: float,
    *,
    late: bool,
) -> Importing:
    known: dict[str, Any] = {}
    for row in rows:
        known.update(row)
    ended = "raised" in known or "file" in known
    timed_out = limit if late or (not ended and code == 1 and taken >= limit) else None
    if not ended and not rows and code > 0 and timed_out is None:
        said = [line for line in text.splitlines() if line and not line.startswith("import time:")]
        words = said[-1] if said else f"it ends with status {code} and says nothing"
        raise EvidenceError(executable, f"cannot run the import: {words[:300]}")
    raised = _raised(known.get("raised"))
    number = -code if code < 0 and timed_out is None else 0
    return Importing(
        name=name,
        python=executable,
        seconds=float(known.get("seconds", taken)),
        file=None if raised is not None else _text(known.get("file")),
        version=_text(known.get("version")),
        raised=raised,
        signal=signal_name(number) if number else None,
        status=code,
        timed_out=timed_out,
        loading=_text(known.get("loading")),
        stack=tuple(f"{a}:{b} in {c}" for a, b, c in _FRAME.findall(text))[:32],
        shadows=tuple(Shadow(**row["shadow"]) for row in rows if "shadow" in row)[:16],
        alike=_alike(raised, known.get("installed", ()), within="package" in known),
        package=_text(known.get("package")),
        found_at=_found_at(raised, known.get("path", ())),
        costs=_costs(text),
    )


def _raised(row: Mapping[str, Any] | None) -> Raised | None:
    if not isinstance(row, dict):
        return None
    frames = tuple((str(a), int(b), str(c)) for a, b, c in row["frames"])
    words = str(row["message"])[:4000]
    return with_matches(
        Raised(str(row["type"]), words, _text(row["module"]), _text(row["file"]), frames)
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _alike(raised: Raised | None, installed: list[str], *, within: bool) -> tuple[str, ...]:
    if raised is None or raised.module is None:
        return ()
    # Nothing of its parent is told where that is missing itself.
    missing = raised.module.rpartition(".")[2] if within else raised.module.partition(".")[0]
    others = [one for one in installed if one != missing]
    return tuple(difflib.get_close_matches(missing, others, n=3))


def _found_at(raised: Raised | None, path: list[str]) -> tuple[str, ...]:
    """Return where the library lies that was not found: wheels bring theirs in such folders."""
    match = raised.match("ld-not-opened") if raised is not None else None
    if match is None or "/" in match["what"]:
        return ()
    found: list[str] = []
    for folder in path:
        for pattern in ("nvidia/*/lib", "*/lib", "*.libs"):
            found += (str(one / match["what"]) for one in Path(folder).glob(pattern))
    return tuple(one for one in found if os.path.exists(one))[:4]  # noqa: PTH110


def _costs(text: str) -> tuple[Cost, ...]:
    rows = [
        Cost(name, int(own) / 1e6, int(total) / 1e6) for own, total, name in _TIME.findall(text)
    ]
    return tuple(sorted(rows, key=lambda row: -row.own)[:_MOST_COSTS])
