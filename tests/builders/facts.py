"""Facts built from text: gdb's `bt`, and the small TOML cases under corpus/.

The parser of gdb's backtraces is for evidence that people paste (issues, mails); it shares nothing
with the reader that talks to gdb.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.rules import cases_of
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind, classify
from postmortem.facts.core import CoreFacts
from postmortem.facts.crash import (
    AbortMessage,
    CppException,
    EarlierExceptions,
    FatalPythonError,
    Fault,
    Instruction,
    Panic,
    Signal,
    earlier_exceptions,
)
from postmortem.facts.last_words import KnownWords
from postmortem.facts.memory import Address, BinaryFacts, MappedFile, MemoryTotals, Module, Modules
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import Frame, Thread, Threads, Trust, Wait
from postmortem.facts.versions import LibraryVersion, Versions
from postmortem.readers import core
from postmortem.readers.known_text import fatal_error, known_in, with_matches
from postmortem.readers.native_core import ask_native

_FRAME = re.compile(r"^#(?P<index>\d+)\s+(?:(?P<pc>0x[0-9a-f]+) in )?(?P<rest>.*)$", re.DOTALL)
_FROM = re.compile(r"\s+from ?(?P<module>[^\s]\S*)$")
_AT = re.compile(r"\s+at (?P<file>\S+):(?P<line>\d+)$")
_NUMBERS = {"SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGSEGV": 11}
_NUMBERS |= {"SIGQUIT": 3, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31, "SIGSTOP": 19}


def read_core(path: str, **asked: Any) -> CoreFacts:
    return core.facts_of(ask_native(path, **asked))


def parse_bt(text: str) -> tuple[Frame, ...]:
    """Return the frames of a gdb backtrace: wrapped lines, inlined frames, signal frames.

    A line ``python inner at train.py:9`` stands for a Python frame.
    """
    joined: list[str] = []
    for line in text.strip().splitlines():
        if line.lstrip().startswith("#"):
            joined.append(line.strip())
        elif line.startswith("python "):
            joined.append(line)
        elif joined and line.strip():
            joined[-1] += " " + line.strip()
    return tuple(_frame(line, index) for index, line in enumerate(joined))


def _frame(line: str, position: int) -> Frame:
    if line.startswith("python "):
        function, _, place = line.removeprefix("python ").partition(" at ")
        file, _, number = place.rpartition(":")
        return Frame(function, "python", file=file, line=int(number), trust=Trust.PYTHON)
    match = _FRAME.match(line)
    if match is None:
        raise ValueError(f"not a frame of gdb: {line!r}")
    rest, pc = match["rest"], match["pc"]
    if rest.strip() == "<signal handler called>":
        return Frame("<signal handler called>", trust=Trust.GDB)
    module = file = number = None
    if found := _FROM.search(rest):
        module, rest = found["module"], rest[: found.start()]
    elif found := _AT.search(rest):
        file, number, rest = found["file"], int(found["line"]), rest[: found.start()]
    function, arguments = _split_arguments(rest.strip())
    return Frame(
        function,
        pc=int(pc, 16) if pc else None,
        module=module,
        file=file,
        line=number,
        inlined=pc is None and position > 0,
        trust=Trust.GDB,
        arguments=arguments,
    )


def _split_arguments(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Split gdb's argument list from the function: it is the last group, after a blank."""
    cut = len(text)
    depth, quoted = 0, False
    for index in range(len(text) - 1, -1, -1):
        character = text[index]
        if character == '"' and text[index - 1 : index] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += {")": 1, "(": -1}.get(character, 0)
        if character == "(" and depth == 0:
            if index > 0 and text[index - 1] == " ":
                cut = index
            break
    function = text[:cut].strip()
    arguments = re.findall(r"(\w+)=((?:\"[^\"]*\"|[^,\"])+)", text[cut + 1 : -1])
    return function, tuple((name, value.strip()) for name, value in arguments)


@dataclass(slots=True)
class Case:
    """One corpus case: facts, and what the rules must and must not say about them."""

    name: str
    rule: str
    family: str
    facts: dict[type, object]
    expect: tuple[str, ...]
    forbid: tuple[str, ...]
    roles: dict[str, str]
    confidences: dict[str, str]
    explanation_lacks: tuple[str, ...]
    how: str
    title: str
    kind: str | None = None
    source: str | None = None
    raw: dict[str, Any] = field(default_factory=dict)

    def get(self, fact_type: type) -> Any:
        """Return one fact, or None."""
        return self.facts.get(fact_type)


def load_case(path: Path, raw: dict[str, Any]) -> Case:
    """Return one ``corpus/FAMILY/RULE/CASE.toml``."""
    return Case(
        name=f"{path.parts[-3]}/{path.parts[-2]}/{path.stem}",
        rule=path.parts[-2],
        family=path.parts[-3],
        facts=facts_of(raw),
        expect=tuple(raw.get("expect", ())),
        forbid=tuple(raw.get("forbid", ())),
        roles=dict(raw.get("roles", {})),
        confidences=dict(raw.get("confidences", {})),
        explanation_lacks=tuple(raw.get("explanation_lacks", ())),
        how=raw["how"],
        title=raw["title"],
        kind=raw.get("kind"),
        source=raw.get("source"),
        raw=raw,
    )


def load_cases() -> list[Case]:
    """Read all cases of rules over core facts, in order of their paths."""
    return [load_case(path, raw) for path, raw in cases_of("core")]


def facts_of(raw: dict[str, Any]) -> dict[type, object]:
    """Return the facts of a case by type, as the engine takes them."""
    facts: dict[type, object] = {}
    process = Process(**{"pid": 1000, "machine": "x86_64", **_tuples(raw.get("process", {}))})
    facts[Process] = process
    facts[CoreFile] = CoreFile(
        **{"path": "core", "origin": "kernel", "size_bytes": 1, "expected_bytes": 1}
        | raw.get("core", {})
    )
    if "signal" in raw:
        entry = dict(raw["signal"])
        entry.setdefault("number", _NUMBERS.get(entry["name"], 0))
        facts[Signal] = Signal(**entry)
    threads = facts[Threads] = _threads(raw, process.pid)
    if "fault" in raw:
        facts[Fault] = _fault(raw["fault"])
    if "abort_message" in raw:
        facts[AbortMessage] = with_matches(
            AbortMessage(raw["abort_message"], raw.get("abort_is_of_this_end", True))
        )
    fatal = fatal_error(threads.crashed)
    if "fatal_python_error" in raw:
        fatal = FatalPythonError(**raw["fatal_python_error"])
    if fatal is not None:
        facts[FatalPythonError] = with_matches(fatal)
    if "panic" in raw:
        facts[Panic] = with_matches(Panic(**raw["panic"]))
    if "exception" in raw:
        entry = {"tid": _crashed_tid(raw), "what": None, "found_by": "tls", **raw["exception"]}
        facts[CppException] = with_matches(CppException(**entry))
    tid = _crashed_tid(raw)
    missing = {"tid": tid, "what": None, "found_by": "stack"}
    earlier = [
        with_matches(CppException(**{**missing, **entry})) for entry in raw.get("exceptions", ())
    ]
    if (others := earlier_exceptions(earlier, tid)) is not None:
        facts[EarlierExceptions] = others
    words = [("abort message", raw.get("abort_message", ""), None)]
    words.append(("C++ exception", raw.get("exception", {}).get("what") or "", None))
    if (known := known_in(words)) is not None:
        facts[KnownWords] = known
    facts[Modules] = Modules(tuple(_module(entry) for entry in raw.get("modules", ())))
    if "versions" in raw:
        rows = tuple(LibraryVersion(name, text, "case") for name, text in raw["versions"].items())
        facts[Versions] = Versions(rows, process.machine)
    if "binary" in raw:
        entry = dict(raw["binary"])
        versions = tuple((key, tuple(value)) for key, value in entry.pop("versions", {}).items())
        facts[BinaryFacts] = BinaryFacts(needed=(), versions=versions, **entry)
    if "memory" in raw:
        facts[MemoryTotals] = MemoryTotals(by_kind=(), **raw["memory"])
    facts[FaultKind] = classify(
        facts.get(Signal),  # type: ignore[arg-type]
        facts.get(Fault),  # type: ignore[arg-type]
        threads,
        facts[CoreFile],  # type: ignore[arg-type]
        process,
    )
    if threads.crashed is not None:
        facts[Thread] = threads.crashed
    if Signal in facts:
        facts[Crash] = Crash(facts[FaultKind], facts[Signal], facts.get(Fault), threads, process)  # type: ignore[arg-type]
    return facts


def _crashed_tid(raw: dict[str, Any]) -> int:
    return int(raw.get("thread", {}).get("tid", 1000))


def _threads(raw: dict[str, Any], pid: int) -> Threads:
    items = []
    if "bt" in raw or "thread" in raw:
        entry = {"crashed": raw.get("core", {}).get("origin") != "gcore", **raw.get("thread", {})}
        items.append(_thread({"tid": pid, **entry}, raw.get("bt", "")))
    for entry in raw.get("threads", ()):
        entry = dict(entry)
        items.append(_thread(entry, entry.pop("bt", "")))
    return Threads(tuple(items), main_tid=pid)


def _thread(entry: dict[str, Any], bt: str) -> Thread:
    repeat = int(entry.pop("repeat", 0))
    frames = parse_bt(bt)
    if repeat:
        frames = frames * repeat
    if "waits_for" in entry:
        entry["waits_for"] = Wait(**entry["waits_for"])
    if "handles" in entry:
        entry["handles"] = Signal(**entry["handles"])
    return Thread(frames=frames, **entry)


def _fault(raw: dict[str, Any]) -> Fault:
    entry = dict(raw)
    for key in ("pc", "sp", "address", "operand"):
        if key in entry:
            entry[key] = Address(**entry[key])
    entry.setdefault("pc", CODE)
    entry.setdefault("sp", STACK)
    if "file" in entry:
        entry["file"] = MappedFile(**entry["file"])
    if "instruction" in entry:
        told = {"pc": entry["pc"].value, "code": "", **entry["instruction"]}
        entry["instruction"] = Instruction(**{**told, "code": bytes.fromhex(told["code"])})
    return Fault(**_tuples(entry))


def _module(entry: dict[str, Any]) -> Module:
    return Module(**{"start": 0x7F00_0000_0000, "end": 0x7F00_0010_0000, "status": "ok", **entry})


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}


CODE = Address(0x7F00_0000_1000, True, 0x7F00_0000_0000, 0x7F00_0010_0000, "r-x", "module")
STACK = Address(0x7FFF_FFFF_E000, True, 0x7FFF_FFF0_0000, 0x7FFF_FFFF_F000, "rw-", "stack")
