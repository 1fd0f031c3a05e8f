"""Signatures: a wording, or a place in a stack, that means one thing."""

from postmortem.records import record


@record
class Signature:
    """One record of the knowledge base: what a known line means, and what to do about it."""

    id: str
    family: str
    """The file that it stands in: ``"nccl"``."""
    role: str
    """``"root"``, ``"contributing"``, ``"cascade"`` or ``"context"``, as of a diagnosis."""
    where: tuple[str, ...]
    """Kinds of evidence that show it, of `WHERE`."""
    cause: str
    next_steps: tuple[str, ...]
    reference: str
    """Where it was seen or where its text comes from."""
    versions: str | None = None
    """Of the program that writes it, in words; None where it is not known to depend on them."""
    pattern: str | None = None
    """What the engine looks for in lines; None where no line of text shows it."""
    frames: tuple[str, ...] = ()
    """Functions, without parameters, that stand in the stack together."""
    sign: str | None = None
    """In words, what shows it where neither a line nor functions do."""
    rule: str | None = None
    """The diagnosis rule that decides it where more than the line is known."""
    samples: tuple[str, ...] = ()
    """Lines that it matches."""
    unlike: tuple[str, ...] = ()
    """Lines that look alike and that it must not match."""
    event: str | None = None
    """Of a line of the kernel's log, what it is about: a `KernelKind`."""
    fault: str | None = None
    """Of such a line, whose fault it is: a `Fault`."""
    part: str | None = None
    """What an exception with these words says of the rank that raised it: a `Part`."""
    startup: str | None = None
    """What a job lacked when it started, if an error has these words: a `StartupFault`."""
    keep: tuple[str, ...] = ()
    """What the native reader keeps lines of rank logs for that hold it: kinds of `KEEPS`."""
    ending: str | None = None
    """Of a line with which a process ends, the kind of the failure: that of a `LogFailure`."""
    exception: str | None = None
    """Of such a line, what the failure is called, unless a group of that name says so."""
    refines: tuple[str, ...] = ()
    """Ids of messages of which it says more, or less: their words stand in its pattern too."""

    @property
    def is_wording(self) -> bool:
        """Whether it needs no explanation: readers look for it, and nobody is told of it."""
        return not self.next_steps


@record
class Brief:
    """What a program needs to know of a message to find it and to decide by it."""

    id: str
    family: str
    role: str
    where: tuple[str, ...]
    pattern: str
    part: str | None = None
    startup: str | None = None
    keep: tuple[str, ...] = ()
    ending: str | None = None
    exception: str | None = None


KEEPS = (
    "traceback", "fatal", "frames", "launcher", "comm", "nccl", "startup", "world", "trail", "link",
    "error", "mark",
)  # fmt: skip
"""What lines of rank logs are kept for: the names of ``Kind`` in csrc/ranklogs/keep_literals.h."""


@record
class Match:
    """A message that a text holds."""

    id: str
    captures: dict[str, str]
    """What its named groups hold; those without a part in the match are left out."""

    def __getitem__(self, name: str) -> str:
        """Return what a group holds; empty where it has no part in the match."""
        return self.captures.get(name, "")


class Known:
    """Base of a record with the known messages that its text holds."""

    matches: tuple[Match, ...]

    def match(self, *ids: str) -> Match | None:
        """Return the first of these messages that it holds, if there is one."""
        for match in self.matches:  # asked for thousands of lines: a generator takes twice as long
            if match.id in ids:
                return match
        return None


WHERE = (
    "line",  # what readers look for in the lines that are kept of rank logs
    "last line",  # how the last lines of a log read: too general to look for in all of it
    "run begin",  # where a program says that it starts
    "run sign",  # of which programs a log is
    "ci step",  # where a runner of CI begins a step, or says how one ended
    "log",  # what programs and launchers print
    "process text",  # what rules read in an exception, in the text of abort(), on standard error
    "error message",  # what an exception says: too general to look for in all of a log
    "kernel log",
    "scheduler log",
    "ncclras",
    "strace",
    "core frames",
    "live stacks",
    "files",
    "processes",
    "configuration",
)
"""Kinds of evidence, in order of how often a signature stands in them."""


@record
class Hit:
    """One signature in one line."""

    id: str
    role: str
    offset: int
    """Of the match in the data."""
    line_number: int
    """From 1."""
    text: str
    """The line without its end; of a line of over 8 KiB the piece around the match."""
    groups: dict[str, str]
    """What the named groups of the pattern hold; those without a part in the match are left out."""
    index: int = 0
    """Of the signature among those that were looked for."""


@record
class Tally:
    """What one pass over a text found."""

    hits: tuple[Hit, ...]
    """By line; of each signature only so many as were asked for."""
    counts: dict[str, int]
    """Lines that each signature stands in, of those that were found at all."""
    lines: int
