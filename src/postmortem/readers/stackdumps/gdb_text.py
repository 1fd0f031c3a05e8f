"""What ``gdb -batch -ex "thread apply all bt"`` prints (gdb/stack.c, print_frame)."""

from collections.abc import Iterator

from postmortem.facts.stackdumps import StackDump
from postmortem.facts.threads import Frame, Thread
from postmortem.patterns import Pattern
from postmortem.readers.signatures import Signatures
from postmortem.readers.stackdumps.frames import MOST_FRAMES, MOST_THREADS, Interned

THREAD = Pattern(
    r"^Thread (?P<number>\d{1,18}) \((?:Thread 0x[0-9a-f]+ )?\(?LWP (?P<tid>\d{1,18})\)?"
    r"(?: \"(?P<name>.*?)\")?.*\):?"
)
FRAME = Pattern(r"^#(?P<level>\d{1,18}) +(?:(?P<pc>0x[0-9a-f]+) in )?(?P<rest>\S.*)$")
BARE = Pattern(r"^#0  (?:0x[0-9a-f]+ in )?[^\s(].* \((.*\)|.*, *$)")
"""The first frame of a `bt`, whole or to a comma at which gdb broke it. gfortran's backtraces have
no brackets behind the name."""
_LWP = Pattern(r"\(LWP (\d{1,9})\)|\[New LWP (\d{1,9})\]")
_MOST_SAID = 10_000
_AT = Pattern(r" at (?P<file>[^()]+):(?P<line>\d{1,18})$")
_TEXT = Pattern(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)+'")
_FROM = Pattern(r" from (?P<module>[^()]+)$")


def process_in(text: str) -> int:
    """Return the process whose threads gdb names: the group's leader is its oldest one; else 0."""
    return min((int(one[1] or one[2]) for one in _LWP.finditer(text)), default=0)


def of_a_crash(text: str) -> bool:
    """Return whether gdb says that the process of these stacks crashed."""
    said = [line for line in text.splitlines() if line.startswith(("Thread ", "Program "))]
    found = Signatures.load("line").matches(said[:_MOST_SAID])
    return any(match.id == "gdb-crash" for row in found for match in row)


def read_text(lines: list[str], frames: Interned) -> list[StackDump]:
    """Return the one dump of the text, if it has a thread with frames."""
    threads: list[tuple[int, str | None, list[Frame]]] = []
    for line in _joined(lines):
        if line.startswith("Thread ") and (found := THREAD.match(line)):
            if len(threads) < MOST_THREADS:
                threads.append((int(found["tid"]), found["name"], []))
        elif line.startswith("#") and (call := FRAME.match(line)):
            if not threads:
                threads.append((0, None, []))  # a plain `bt`
            if int(call["level"]) == 0:
                threads[-1][2].clear()  # asked again: the last one counts
            if len(threads[-1][2]) < MOST_FRAMES:
                threads[-1][2].append(_frame(call["rest"], frames))
    found_threads = tuple(
        Thread(tid=tid, name=name, frames=tuple(stack)) for tid, name, stack in threads if stack
    )
    if not found_threads:
        return []
    tids = [thread.tid for thread in found_threads]
    return [
        StackDump(
            tool="gdb",
            threads=found_threads,
            main=tids.index(min(tids)),  # the group's leader is its oldest thread
            pid=min(tids) or None,
        )
    ]


def _joined(lines: list[str]) -> Iterator[str]:
    """Yield the lines, those of a frame in one; gdb indents the rest by four, locals by eight."""
    frame = ""
    for line in lines:
        if frame and line.startswith("    ") and not line.startswith("        "):
            frame += f" {line.strip()}"
            continue
        if frame:
            yield frame
        frame = line if line.startswith("#") else ""
        if not frame:
            yield line
    if frame:
        yield frame


def _frame(rest: str, frames: Interned) -> Frame:
    if rest.startswith("<"):  # <signal handler called>, <function called from gdb>
        return frames.frame(rest, kind="native")
    file = line = module = None
    if found := _AT.search(rest):
        file, line, rest = found["file"], int(found["line"][:9]), rest[: found.start()]
    elif found := _FROM.search(rest):
        module, rest = found["module"], rest[: found.start()]
    return frames.frame(
        _without_arguments(rest), kind="native", file=file, line=line, module=module
    )


def _without_arguments(text: str) -> str:
    """Cut the arguments off, the last group in brackets: names have brackets of their own."""
    if not text.endswith(")"):
        return text
    plain = _TEXT.sub(lambda match: "_" * len(match[0]), text)  # brackets in texts are none
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (plain[at] == ")") - (plain[at] == "(")
        if depth == 0:
            return text[:at].rstrip() or text
    return text
