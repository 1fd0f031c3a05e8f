"""Kind ``logs``: what the ranks of a job wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from postmortem.facts import kernel_log, last_lines, nccl, rank_logs, versions
from postmortem.facts.batch_jobs import BatchJob
from postmortem.facts.confidence import Confidence
from postmortem.facts.rank_logs import LogFrame, NativeFrame
from postmortem.report.contract import Shape
from postmortem.report.contract.flight import FlightFile

if TYPE_CHECKING:
    from postmortem.diagnose.jam.jam import Sign
    from postmortem.diagnose.ranks.cause_kinds import CauseKind
    from postmortem.diagnose.ranks.kernel_matches import MatchKey


class Writer(Shape, of=rank_logs.Writer, without=("source",)):
    pass


class ExceptionText(Shape, of=rank_logs.ExceptionText):
    pass


class GroupPart(ExceptionText):
    causes: list[ExceptionText]
    parts: list[GroupPart]


class Traceback(Shape):
    exception: str
    message: str
    text: str
    attempt: int | None
    labels: list[str]
    count: int
    kind: Literal["exception", "thread", "ignored", "fatal", "terminate", "watchdog"]
    file: str
    line: int
    causes: list[ExceptionText]
    """what it came from, the first one first"""
    parts: list[ExceptionText]
    """of an exception group"""
    survived: bool
    """whether lines behind it show that its program went on"""
    group: GroupPart | None
    """its tree"""
    native_frames: list[NativeFrame]
    """C++, the innermost first"""
    frames: list[LogFrame]


class FirstFailure(Shape):
    label: str
    rank: int | None
    host: str | None
    what: str
    means: str | None
    """what the error means, where its own words do not say it"""
    file: str
    line: int
    confidence: Confidence
    ranks: list[int]
    """all that failed by themselves, when several did"""


class LogLine(Shape):
    line: int
    text: str


class LogExcerpt(Shape, of=last_lines.LogExcerpt, without=("rows",)):
    lines: list[LogLine]
    """without what names their writer"""


class Suspect(Shape):
    rank: int | None
    label: str
    why: str
    host: str | None


class AlsoFailed(Suspect):
    file: str
    line: int
    raised: bool
    """an error of its own says why; else its launcher says that it ended, and it said nothing"""


class Exit(Shape):
    rank: int | None
    local_rank: int | None
    pid: int | None
    host: str | None
    code: int | None
    signal: str | None
    memory: bool
    """the launcher, or the kernel, says that it was killed for memory"""
    evicted: str
    """for what its pod had to go; empty where none had"""
    launcher: str
    file: str
    line: int


class RankPid(Shape, of=rank_logs.RankPid, without=("where", "bus")):
    pass


class Network(Shape):
    what: str
    value: str


class NcclNetwork(Shape):
    network: str
    hosts: list[str]


class Transport(Shape):
    from_: str
    to: str
    transport: str
    channels: int
    line: int


class Trail(Shape):
    host: str | None
    label: str
    file: str
    line: int
    result: int
    steps: list[str]


class Peer(Shape, of=nccl.BadPeer, without=("writers",)):
    named_by: list[str]


class Nccl(Shape):
    versions: list[str]
    networks: list[NcclNetwork]
    transports: list[Transport]
    trails: list[Trail]
    """ways back from an error"""
    peers: list[Peer]
    """addresses that warnings name"""


class Attempt(Shape):
    attempt: int
    decided_by: CauseKind
    ranks: list[int]
    what: str
    told: bool
    """the one that `first_failure` is of"""


_OF_EVENTS = ("words", "brief", "limit", "number", "beside")


class KernelEvent(Shape, of=kernel_log.KernelEvent, without=_OF_EVENTS):
    what: str
    """in words"""
    xid: int | None
    joined_by: MatchKey
    ranks: list[int]
    """whom it is about"""
    outlived: bool
    """all logs went on behind it, by their clocks"""


class LeftOut(Shape):
    reason: str
    count: int
    files: list[str]
    """the first 100"""


class EarlierEnd(Shape, of=last_lines.LastLine, without=("since",)):
    pass


class Operation(Shape):
    name: str | None
    group: str
    group_words: str
    sequence: int
    members: int | None
    since: float | None
    """seconds since 1970"""


class Culprit(Shape):
    rank: int
    kind: str
    """`never came`, `late`, `no dump`, `called something else`, `another order`,
    `stopped taking note`, `device has not begun`, `not finished`"""
    what: str
    confidence: Confidence
    holds_up: int
    """ranks in an operation that lacks it"""
    operation: Operation | None


class Unended(Shape):
    operation: Operation
    ranks: list[int]
    """all are in it"""


class Jam(Shape):
    waiting: int
    """ranks"""
    explained: int
    """those whose waiting leads to a culprit or a candidate"""
    sign: Sign
    """that the job hung"""
    sign_words: str
    seen: int
    """ranks with a dump"""
    unseen: int
    operations_left_out: int
    candidates: list[Culprit]
    unended: list[Unended]


class StackFrame(Shape):
    kind: Literal["native", "python"]
    function: str
    file: str | None
    line: int | None
    module: str | None


class StackClass(Shape):
    labels: list[str]
    ranks: list[int]
    doing: str
    running: bool | None
    """null where one sample says nothing of it"""
    frames: list[StackFrame]


class Stacks(Shape):
    samples: int
    """of every rank"""
    moved: list[str]
    classes: list[StackClass]
    """the smallest first"""


class LastCall(Shape):
    operation: str
    group: str
    sequence: int
    finished: bool


class Recorder(Shape):
    rank: int
    file: str
    calls: int
    last: LastCall | None


class OddVersion(Shape, of=versions.OddVersion):
    pass


class Logs(Shape):
    ranks: list[Writer]
    """who wrote"""
    tracebacks: list[Traceback]
    """those that end alike once"""
    first_failure: FirstFailure | None
    """null on a healthy log, for a start-up fault that is no rank's, and where it cannot be
    decided"""
    candidates: list[Suspect]
    """who it may be, where it cannot be decided"""
    victims: list[Suspect]
    """who ended because of another"""
    also_failed: list[AlsoFailed]
    """who failed by itself too, with an error that the crash of the first one does not explain"""
    decided_by: CauseKind
    whole_host: str | None
    """the host of which all ranks failed alike, and none elsewhere"""
    world_size: int | None
    """how many ranks there are"""
    world_size_source: str | None
    """what says so"""
    hosts: list[str]
    """that are named"""
    exits: list[Exit]
    """how launchers say that processes ended"""
    pids: list[RankPid]
    """processes of ranks that any evidence names"""
    excerpt: LogExcerpt | None
    """the line that the first diagnosis cites first, with those that its writer wrote around it;
    without one the last line, or that which is closest to an error, if no word tells of an end"""
    done: bool
    """whether a launcher, or the last line, tells that the job came to its end"""
    earlier: list[EarlierEnd]
    """with what runs ended that stand in a file before the one which is judged, where that is an
    error, the newest of each file first"""
    earlier_pids: list[int]
    """processes that the lines of those runs name, and none of the run which is judged"""
    odd_version: OddVersion | None
    """the rank that alone names another version of something than all others; null without one"""
    jobs: list[BatchJob]
    """what became of jobs of a batch system, where its log of events is among the logs"""
    launcher_blames: list[int]
    """ranks that torchrun calls the root cause, one for each host"""
    network: list[Network]
    """what NCCL says of itself"""
    nccl: Nccl | None
    """the same in full, null without lines of it"""
    attempts: list[Attempt]
    """one row for each start of the job (torchrun `--max-restarts`, a requeue), from 0"""
    kernel_events: list[KernelEvent]
    """faults that kernel logs beside the ranks' tell of"""
    lines: int
    """that were read"""
    left_out: list[LeftOut]
    """files of a folder that were not read"""
    culprits: list[Culprit]
    """who holds up all others by the flight recorders, one row for each"""
    jam: Jam | None
    """the same over all ranks, null where nobody waits"""
    stacks: Stacks | None
    """where the ranks stood, null without dumps of their stacks"""
    recorders: list[Recorder]
    """flight-recorder dumps"""
    flights: list[FlightFile]
    """files of the numerics monitor"""
