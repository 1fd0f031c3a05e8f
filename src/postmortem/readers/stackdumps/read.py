"""Finds out which tool wrote a text with stacks, and reads it."""

from itertools import takewhile

from postmortem.facts.stackdumps import StackDump
from postmortem.patterns import Pattern
from postmortem.readers.signatures import Signatures
from postmortem.readers.stackdumps import fault_handler, gdb_text, own, own_text, pyspy, pystack
from postmortem.readers.stackdumps.frames import Interned
from postmortem.records import replace

_LOOKED_AT = 64 << 10
# torch.distributed.debug writes the stacks of all ranks into one file, in parts
_RANK = Pattern(r"(?m)^=== Rank (?P<rank>\d{1,7}): https?://(?P<host>[^\s:/]*)\S* ===$")
_HOST = Pattern(r"^(?P<host>[A-Za-z][\w.-]{0,62}): ?")
"""What pdsh and clush write before each line; no tool writes such ones alone."""
_CLOCK = Pattern(r"\b[0-2]\d:[0-5]\d:[0-5]\d\b")
_ENOUGH = 3
_CRASHED = "py-fatal"
_WRITTEN = ("  ", "Thread ", "Current thread ", "Timeout (", "Extension mod")
_OF_GDB = (
    "#", " ", "\t", "(gdb)", "warning: ", "Core was", "Program term", "Reading sym",
    "[New ", "[Thread ", "[Switching ", "[Current ", "[Inferior ", "[Detaching ",
)  # fmt: skip


def looks_like_stacks(head: str) -> bool:
    """Return whether the beginning of a text is that of a tool's dump, and not of a log with one.

    A traceback of faulthandler inside of a log is the log's: its lines are read with that rank's.
    """
    head = head[:_LOOKED_AT]
    head = head.rpartition("\n")[0] or head  # whole lines
    parts = [part for _, _, part in _parts(head)] or [*_of_hosts(head).values()]
    return any(map(_tool, parts or [head]))


def read_stack_dumps(text: str, path: str, frames: Interned | None = None) -> list[StackDump]:
    """Return the stacks of all processes in a text; empty if it has none.

    `path` is for messages; `frames` may be shared between the files of many ranks. Raises
    EvidenceError for JSON that only looked like a dump.
    """
    frames = Interned() if frames is None else frames
    found: list[StackDump] = []
    if hosts := _of_hosts(text):
        read = ((host, _read(part, path, frames)) for host, part in hosts.items())
        return [replace(one, host=host) for host, dumps in read for one in dumps]
    parts = _parts(text)
    for rank, host, part in parts:
        dumps = _read(part, path, frames)
        # what else is in its part are its children
        found += [replace(one, rank=rank, host=host) for one in dumps[:1]]
    return found if parts else _read(text, path, frames)


def _parts(text: str) -> list[tuple[int, str, str]]:
    """Return rank, host and text of each part that torch.distributed.debug wrote."""
    heads = list(_RANK.finditer(text)) if "=== Rank " in text else []
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return [
        (int(head["rank"]), head["host"], text[head.end() : end].lstrip("\n"))
        for head, end in zip(heads, ends, strict=False)  # without a head there is still an end
    ]


def _of_hosts(text: str) -> dict[str, str]:
    """Return what each host wrote, where every line says which one did; else nothing."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        host = _HOST.match(line)
        if host is None:
            return {}
        found.setdefault(host["host"], []).append(line[host.end() :])
    return {host: "\n".join(lines) for host, lines in found.items()}


def _read(text: str, path: str, frames: Interned) -> list[StackDump]:
    tool = _tool(text[:_LOOKED_AT])
    if tool == "json list":
        return pyspy.read_json(text, path, frames)
    if tool == "json object":
        return own.read_json(text, path, frames)
    if tool is None:
        return []
    return _READERS[tool](text.splitlines(), frames)


_READERS = {
    "py-spy": pyspy.read_text,
    "pystack": pystack.read_text,
    "gdb": gdb_text.read_text,
    "faulthandler": fault_handler.read_text,
    own_text.TOOL: own_text.read_text,
}


def _tool(head: str) -> str | None:
    start = head.lstrip()
    if start.startswith("[") and '"frames"' in head and '"thread_id"' in head:
        return "json list"
    if start.startswith("{"):
        return "json object" if '"schema": "postmortem/' in head[:400] else None
    for line in head.splitlines()[:400]:  # py-spy's "Process N: …" alone may be any program's
        if line.startswith("Traceback for thread ") and pystack.THREAD.match(line):
            return "pystack"
        if line.startswith("Thread ") and gdb_text.THREAD.match(line):
            return "gdb"
        if "process, " in line and own_text.FOOT.match(line):
            return own_text.TOOL
        if "Thread " in line and pyspy.THREAD.match(line):
            return "py-spy"
        if gdb_text.BARE.match(line) and _is_bare_gdb(head):
            return "gdb"
    return "faulthandler" if _is_faulthandler(head) else None


def _is_bare_gdb(head: str) -> bool:
    """Return whether a text is little else than what gdb's `bt` wrote, and no log with one."""
    lines = [line for line in head.splitlines() if line.strip()]
    known = sum(line.startswith(_OF_GDB) for line in lines)
    return 2 * known >= len(lines)


def _is_faulthandler(head: str) -> bool:
    """Return whether a text is little else than what faulthandler wrote of a live process.

    What it writes at a crash is the end of that process, and so may be what it writes when a time
    is up, or at a signal, below what that process wrote itself: a log.
    """
    lines = [line for line in head.splitlines() if line.strip()]
    first = lines[:_ENOUGH]
    if not any(fault_handler.THREAD.match(line) for line in first):
        return False
    told = Signatures.load("line").matches(first)
    if any(match.id == _CRASHED for row in told for match in row):
        return False
    above = takewhile(lambda line: not fault_handler.THREAD.match(line), first)
    if any(map(_CLOCK.search, above)):
        return False
    written = [line.startswith(_WRITTEN) for line in lines]
    late = next((at for at, line in enumerate(lines) if line.startswith("Timeout (")), 0)
    return sum(written) >= 0.9 * len(lines) and all(written[:late])
