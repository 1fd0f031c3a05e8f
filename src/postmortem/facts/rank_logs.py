"""What the logs of a job with many ranks say: who wrote, what failed, how processes ended."""

from __future__ import annotations

from postmortem.facts.batch_jobs import BatchJob
from postmortem.facts.exits import LogExit
from postmortem.facts.flight_recorder import Recorder
from postmortem.facts.frames import Flight
from postmortem.facts.kernel_log import KernelLog
from postmortem.facts.last_lines import (
    FailedCell,
    LastLine,
    LastLines,
    Pause,
    Placed,
    Printed,
    Watched,
)
from postmortem.facts.nccl import Nccl
from postmortem.facts.signature import Known, Match
from postmortem.facts.stackdumps import StackClasses
from postmortem.facts.versions import OddVersion
from postmortem.records import record, replace


@record
class LogFrame:
    """One line ``File "f", line n, in g`` of a traceback."""

    file: str
    line: int
    function: str | None = None
    code: str | None = None
    """The source line below it."""


@record
class ExceptionText(Known):
    """An exception as its last line says it."""

    exception: str
    message: str
    matches: tuple[Match, ...] = ()
    """Known messages that its words hold."""

    @property
    def words(self) -> str:
        """``ValueError: bad batch``; of several lines, the first.

        What a process of PyTorch's DataLoader raised stands behind it, and before it here. Where
        the first line ends with a place in a source, or one in a text stands below it, the last
        one that is not indented, or that has such a place, says why.
        """
        first, _, rest = (part.strip() for part in self.message.partition("\n"))
        below = rest.splitlines()
        if '\\n  File "' in first:  # a KeyError's message is quoted, with its ends of lines
            head, *_, last = (part for part in first.split("\\n") if len(part) > 1)
            first = f"{head} … {last}".replace("\\'", "'")
        if rest and first.startswith("Caught "):
            return f"{below[0]} (c{first.removesuffix('.')[1:]})"
        is_open = any(first.count(a) > first.count(b) for a, b in ("<>", "()"))  # brackets
        if rest and (first.endswith(":") or is_open or self.match("errors-listed") is not None):
            below = _below_headings(below)
            named = below[0] if " " in below[0] else " ".join(below[:2])
            first = f"{first} {named}"
        elif rest and first[:1] + first[-1:] == "[]":  # only a place: "[f 1214 … executor.cc:584]"
            first = _below_headings(below)[0]
        elif rest.startswith(":"):  # of Java, below what called it
            first = below[0].lstrip(": ")
        first = first.partition("}} ")[2] or first if first.startswith("{{") else first
        nodes = [i for i, one in enumerate(below) if one.lstrip().startswith("[[{{node")]
        if nodes and nodes[0]:
            first = below[nodes[0] - 1]  # of TensorFlow's graph
        places = [i for i, one in enumerate(below) if one.lstrip().startswith('in "')]
        if len(places) > 1 and not places[0]:
            at = places[-1]
            first = f"{first} … {below[at - 1]} {below[at].strip()}"
        at = below.index(_OF_NCCL) + 1 if _OF_NCCL in below else 0
        if 0 < at < len(below):  # above it stands in which call, and of which kind
            first = f"{below[0].partition(':')[0]}: {below[at]}"
        place, _, number = first.rpartition(":")
        if rest and number.isdigit() and "." in place.rpartition("/")[2]:
            first = f"{first} {[one for one in below if not one[:1].isspace()][-1]}"
        return f"{self.exception}: {first}" if first else self.exception


_OF_NCCL = "Last error:"


def _below_headings(lines: list[str]) -> list[str]:
    """Return lines without those above the last that only say where it came by, or whose it is."""
    at = next((i for i, one in enumerate(lines) if not one.rstrip().endswith(":")), 0)
    return lines[at:]


@record
class NativeFrame:
    """One line of a native stack that a log has."""

    function: str
    """``"??"`` where the log has none."""
    module: str | None = None
    """The library or program."""
    file: str | None = None
    """Of the source."""
    line: int | None = None
    address: str | None = None


@record
class GroupPart:
    """An exception of a group, which may be a group itself."""

    said: ExceptionText
    causes: tuple[ExceptionText, ...] = ()
    """What it was raised from, the first one first."""
    parts: tuple[GroupPart, ...] = ()
    frames: tuple[LogFrame, ...] = ()
    """The outermost first."""

    @property
    def first(self) -> GroupPart:
        """The first exception below it that is no group; itself where it is none."""
        return self.parts[0].first if self.parts else self

    def leaves(self) -> tuple[ExceptionText, ...]:
        """Return the exceptions below it that are no groups; itself where it is none."""
        if not self.parts:
            return (self.said,)
        return tuple(said for part in self.parts for said in part.leaves())


@record
class LogFailure(Known, Placed):
    """A process, or a thread of it, said that it failed."""

    kind: str
    """``"exception"``, ``"thread"`` (a thread's exception), ``"ignored"``, ``"fatal"`` (Fatal
    Python error, a message of the C library), ``"terminate"`` (std::terminate), ``"watchdog"``."""
    said: ExceptionText
    writer: int
    """Index into `RankLogs.writers`."""
    file: str
    line: int
    """Where what it said last stands."""
    frames: tuple[LogFrame, ...] = ()
    """The outermost first."""
    causes: tuple[ExceptionText, ...] = ()
    """Exceptions that it was raised from or while they were handled, the first one first."""
    parts: tuple[ExceptionText, ...] = ()
    """Of an exception group: all below it that are no groups."""
    group: GroupPart | None = None
    """The tree of an exception group, its own or that of what it came from."""
    native: tuple[NativeFrame, ...] = ()
    """C++ frames that stand behind it, the innermost first."""
    text: str = ""
    before: tuple[str, ...] = ()
    """Lines that its writer wrote before it, the oldest first; not of exceptions."""
    begin_line: int = 0
    lines_after: int = 0
    """Lines that the writer wrote after it, without those of other failures."""
    work: LastLine | None = None
    """A line behind it by which its process went on with its work: one of a form that it had
    printed before, with something that moved on."""
    went_on: bool = False
    """Its writer, and nobody else, printed such a line behind it: fewer may only have come late."""
    logged: bool = False
    """A logger's error stands above it, and lines of its writer behind: it may be caught."""
    time: float | None = None
    """Seconds since 1970, where torchelastic wrote it into an error.json."""
    paused: Pause | None = None  # the last line above, if its peer was gone and others waited
    source: str = "log"
    """``"log"``, ``"error.json"``, ``"summary"`` (torchelastic's), ``"quoted"`` by another rank."""
    attempt: int | None = None
    """Which start of the job it is of, from 0, where its launcher starts it again."""
    matches: tuple[Match, ...] = ()
    """Known messages of its first line, where that is no traceback."""
    shown: bool = False
    """Whoever reads the report has its lines before them."""

    @property
    def uncaught(self) -> bool:
        """It begins where a program does, which nobody is there to catch; or none was compiled.

        A process that multiprocessing spawned has another one behind it.
        """
        if any(frame.function == "spawn_main" for frame in self.frames[:2]):
            return False
        began = self.frames[0].function if self.frames else ""
        if began is None:
            return len(self.frames) == 1
        return began in ("<module>", "_run_module_as_main") and not self.logged

    @property
    def words(self) -> str:
        """``KeyError: 'k'``; of a group what began it: the first exceptions that are none itself.

        The second one is told where it is another: either may be the cause.
        """
        if not self.parts or self.said in self.parts:
            return self.said.words
        told = [*dict.fromkeys(part.words for part in self.parts)][:2]
        more = len(self.parts) - len(told)
        rest = [f"{more} more"] if more else []
        return f"{' and '.join([*told, *rest])} (in an {self.said.exception})"

    @property
    def torn(self) -> bool:
        """Its outermost frames are missing: the log begins in the middle of its traceback.

        A group has a margin, and of a program that cannot be compiled there is no head.
        """
        none = self.frames[:1] and self.frames[0].function in (None, "<module>")
        return self.text[:1].isspace() and self.group is None and not none

    @property
    def caught_in(self) -> str:
        """The function of a program that its traceback begins in: it may have been caught there.

        None of how a process of a pool, or an actor, begins, nor of one whose head is missing.
        Whoever begins one calls another function.
        """
        first = (self.frames[0].function or "") if self.frames and not self.torn else ""
        alone = len(self.frames) == 1 and first.startswith("_")
        return first if (alone or first[:1].isalpha()) and "::" not in first else ""

    @property
    def first_said(self) -> ExceptionText:
        """What began it: the exception that all others of the chain came from.

        A DataLoader's handler of SIGCHLD tells of a dead worker: what it interrupts began nothing.
        """
        if not self.causes or self.said.match("dataloader-workers"):
            return self.said
        return self.causes[0]


@record
class RankPid:
    """A process of a rank, as some line names it."""

    rank: int | None
    """None for a child of the one program of a log without ranks."""
    pid: int
    host: str | None
    how: str
    """What says so, in words: ``"torchrun's summary"``."""
    where: str
    own: bool = True
    """The rank itself, not a child of it."""
    bus: int | None = None
    """The PCI address of its GPU as NCCL counts: its hexadecimal digits as one number."""


@record
class Remark(Known, Placed):
    """One line that says something beside tracebacks and endings."""

    text: str
    writer: int
    file: str
    line: int
    attempt: int | None = None
    matches: tuple[Match, ...] = ()
    """Known messages that it holds."""


@record
class Writer:
    """One process that wrote, or the lines that no prefix tells apart (`shared`)."""

    label: str
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    lines: int = 0
    shared: bool = False
    last_words: tuple[str, ...] = ()
    source: str = ""
    """The first file with lines of it."""


@record
class RankLogs:
    """All logs of one job."""

    writers: tuple[Writer, ...]
    failures: tuple[LogFailure, ...]
    exits: tuple[LogExit, ...]
    remarks: tuple[Remark, ...]
    stopped_pids: frozenset[int]
    """Processes that the launcher ended because another one had failed."""
    words: tuple[LogExit, ...]
    """What who watched says of more than one process, or of one whose rank nobody names: that the
    whole job was ended, that a host failed, that the kernel killed for memory."""
    world_size: int | None
    world_source: str | None
    """What says so: ``"--world-size"``, a line of a log."""
    hosts: tuple[str, ...]
    lines: int
    files: tuple[str, ...] = ()
    stacks: StackClasses | None = None
    """Where the ranks stand, if there are dumps of their stacks."""
    flights: tuple[Flight, ...] = ()
    """Files of the numerics monitor, one for each rank."""
    recorders: tuple[Recorder, ...] = ()
    """Dumps of PyTorch's flight recorder, one for each rank."""
    nccl: Nccl | None = None
    attempts: int = 1
    """How often the job was started, as far as these logs go."""
    kernel: KernelLog = KernelLog()
    """What the kernels of the hosts wrote, if their logs lie beside."""
    pids: tuple[RankPid, ...] = ()
    """Process numbers that any evidence gives the ranks."""
    last_lines: tuple[LastLines, ...] = ()
    """How the last lines of each writer read, in each file of it."""
    losses: tuple[tuple[int, Printed], ...] = ()
    """The losses of ranks in lines that name them in their text, where ranks raised for those."""
    watched: tuple[Watched, ...] = ()
    """Errors above what only says that a program failed."""
    without_driver: bool = False
    """They are of a Ray session, and what its driver printed is not among them."""
    cells: tuple[FailedCell, ...] = ()
    """Of a notebook, those that failed before others ran."""
    earlier: tuple[LastLine, ...] = ()
    """Of runs before others in their file, the error that each ended with, the newest first."""
    earlier_pids: tuple[int, ...] = ()
    """Processes that the lines of such runs name, and no line of the last ones."""
    said_pids: tuple[RankPid, ...] = ()
    """Which processes ranks say that they are, in the first lines of logs."""
    run: str = ""
    """What whoever starts runs one after the other calls the one that failed."""
    odd_version: OddVersion | None = None
    unread: tuple[str, ...] = ()
    """Logs of the job, as their names tell, that may not be read."""
    jobs: tuple[BatchJob, ...] = ()
    """What became of each job of a batch system, where its log of events lies among the logs."""

    def who(self, writer: int) -> Writer:
        """Return the writer with an index."""
        return self.writers[writer]

    @property
    def said_memory(self) -> LogExit | None:
        """The first word on a kill for memory that does not tell of whom."""
        return next((w for w in self.words if w.memory and not w.of_job and not w.pid), None)

    def of_attempt(self, attempt: int) -> RankLogs:
        """Return what is known of one attempt; what has none is of the last."""
        if self.attempts < 2:
            return self
        last = attempt == self.attempts - 1

        def mine(fact: LogFailure | LogExit | Remark) -> bool:
            return last if fact.attempt is None else fact.attempt == attempt

        silent = tuple(replace(writer, last_words=()) for writer in self.writers)
        return replace(
            self,
            writers=self.writers if last else silent,
            failures=tuple(filter(mine, self.failures)),
            exits=tuple(filter(mine, self.exits)),
            words=tuple(filter(mine, self.words)),
            remarks=tuple(filter(mine, self.remarks)),
            stacks=self.stacks if last else None,
            flights=self.flights if last else (),
            last_lines=self.last_lines if last else (),
            watched=self.watched if last else (),
            recorders=self.recorders if last else (),
            attempts=1,
        )
