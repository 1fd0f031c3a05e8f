"""What ``faulthandler`` writes, on a crash, after a time-out, or on a signal that was asked for.

Formats of Python/traceback.c, CPython 3.8 to 3.14. C stacks of 3.14 are left to those who read
cores.
"""

from postmortem.facts.stackdumps import StackDump
from postmortem.facts.threads import Frame, Thread
from postmortem.patterns import Pattern
from postmortem.readers.stackdumps.frames import MOST_FRAMES, MOST_THREADS, Interned

THREAD = Pattern(
    r"^(?P<current>Current thread|Thread) (?P<id>0x[0-9a-f]+)(?: \[(?P<name>.*)\])?"
    r"(?: \(most recent call first\))?:\s*$"
)
_TIME = "Timeout ("
"""Above what dump_traceback_later writes of all threads of a process."""
_FRAME = Pattern(r"^  File \"(?P<file>.*)\", line (?P<line>\d{1,18}|\?\?\?) in (?P<function>.*)$")


def read_text(lines: list[str], frames: Interned) -> list[StackDump]:
    """Return a dump for each set of threads: one that is written again, or a time, begins one."""
    dumps: list[list[tuple[int, str | None, list[Frame]]]] = []
    for line in lines:
        if line.startswith(_TIME) and dumps and dumps[-1]:
            dumps.append([])
        elif "hread 0x" in line and (found := THREAD.match(line)):
            identity = int(found["id"], 16)
            if not dumps or any(identity == seen for seen, _, _ in dumps[-1]):
                dumps.append([])
            if len(dumps[-1]) < MOST_THREADS:
                dumps[-1].append((identity, found["name"], []))
        elif dumps and dumps[-1] and line.startswith("  File ") and (call := _FRAME.match(line)):
            stack = dumps[-1][-1][2]
            if len(stack) < MOST_FRAMES:
                number = int(call["line"]) if call["line"].isdigit() else None
                stack.append(
                    frames.frame(call["function"], kind="python", file=call["file"], line=number)
                )
    return [_dump(threads) for threads in dumps if threads]


def _dump(threads: list[tuple[int, str | None, list[Frame]]]) -> StackDump:
    made = tuple(
        Thread(tid=identity, python_name=name, frames=tuple(stack))
        for identity, name, stack in threads
    )
    # faulthandler goes from the newest thread to the oldest; the oldest is the main thread.
    return StackDump(tool="faulthandler", threads=made, main=len(made) - 1)
