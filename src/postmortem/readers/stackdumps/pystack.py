"""``pystack remote`` and ``pystack core``: outermost frames first, with code and locals between."""

from postmortem.facts.stackdumps import StackDump
from postmortem.facts.threads import Frame, Thread
from postmortem.patterns import Pattern
from postmortem.readers.stackdumps.frames import MOST_FRAMES, MOST_THREADS, Interned

THREAD = Pattern(
    r"^Traceback for thread (?P<tid>\d{1,18})(?: \((?P<name>.*?)\))? \[(?P<state>.*?)\]"
    r" \(most recent call last\):"
)
_FRAME = Pattern(
    r"^\s{4}\((?P<kind>Python|C)\) File \"(?P<file>.*?)\", line (?P<line>\d{1,18}), "
    r"in (?P<rest>.*)$"
)
_MODULE = Pattern(r"^(?P<function>.*?)(?P<inlined> \(inlined\))?(?: \((?P<module>[^()]*)\))?$")


def read_text(lines: list[str], frames: Interned) -> list[StackDump]:
    """Return the one dump of the text, if it has a thread."""
    threads: list[Thread] = []
    head: dict[str, str] | None = None
    stack: list[Frame] = []

    def end() -> None:
        if head is not None and len(threads) < MOST_THREADS:
            threads.append(
                Thread(
                    tid=int(head["tid"]),
                    name=head["name"] or None,
                    holds_gil="Has the GIL" in head["state"],
                    frames=tuple(reversed(stack)),
                )
            )

    for line in lines:
        if line.startswith("Traceback for thread ") and (found := THREAD.match(line)):
            end()
            head, stack = {key: value or "" for key, value in found.groupdict().items()}, []
        elif head is not None and line.startswith("    (") and (call := _FRAME.match(line)):
            # Outermost first: of a stack that is too long its inner part is the one to keep.
            stack.append(
                _frame(call["kind"], call["file"], int(call["line"]), call["rest"], frames)
            )
            if len(stack) > 2 * MOST_FRAMES:
                del stack[:MOST_FRAMES]
    end()
    if not threads:
        return []
    main = next((i for i, t in enumerate(threads) if _runs_module(t)), None)
    return [StackDump(tool="pystack", threads=tuple(threads), main=main)]


def _frame(kind: str, file: str, line: int, rest: str, frames: Interned) -> Frame:
    if kind == "Python":
        return frames.frame(rest, kind="python", file=file, line=line)
    found = _MODULE.match(rest)
    function, inlined, module = (
        (found["function"], found["inlined"] is not None, found["module"])
        if found
        else (rest, False, None)
    )
    known = file not in ("", "???")
    return frames.frame(
        "??" if function == "???" else function,
        kind="native",
        file=file if known and line else None,
        line=line if known and line else None,
        module=module,
        inlined=inlined,
    )


def _runs_module(thread: Thread) -> bool:
    """Return whether this is the thread that runs the program's file, or its C main()."""
    if not thread.frames:
        return False
    names = {frame.function for frame in thread.frames[-16:]}
    outermost = next((f for f in reversed(thread.frames) if f.kind == "python"), None)
    return "Py_BytesMain" in names or (
        outermost is not None and outermost.function in ("<module>", "_run_module_as_main")
    )
