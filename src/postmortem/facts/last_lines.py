"""How the last lines of one process read, where no form that is known says how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.records import record, replace


class Placed:
    """Base of a record that stands in a line of a log."""

    if TYPE_CHECKING:  # the record says in which order its fields stand
        file: str
        line: int

    @property
    def where(self) -> str:
        """The place as evidence is cited: ``FILE:LINE``."""
        return f"{self.file}:{self.line}"


@record
class LastLine(Placed):
    """One of the last lines of a process."""

    text: str
    file: str
    line: int
    since: int = 0
    """The first line of its form, where its writer had printed that before and something has moved
    on since: it tells of work. Else 0."""


@record
class Pause:
    """A line, and for how long its writer had written nothing."""

    seconds: float
    line: LastLine


@record
class LogExcerpt:
    """A line of a log, with those that its writer wrote around it."""

    file: str
    line: int
    rows: tuple[tuple[int, str], ...]
    """Numbers and texts, without what names the writer."""


@record
class Printed:
    """A number of the training that a writer prints."""

    form: str
    """What stands before it, with numbers as ``#``."""
    column: int
    """Which of the numbers there is the step; -1 where none is known to be."""
    last: int
    """The last step."""
    bad: LastLine | None = None
    """From there on it is no finite number, to the end."""
    since: int = 0
    """The step of that line."""
    before: bool = False
    """A finite number stands before it, in the lines that were kept."""


@record
class LastLines:
    """What stands at the end of one writer in one file."""

    writer: int
    """Index into `RankLogs.writers`."""
    last: LastLine
    errors: tuple[LastLine, ...] = ()
    """Lines that read like an error and behind which nothing else stands; the telling one first."""
    plain: bool = False
    """They have the form of an error that ends something, not only a word or a level."""
    form: str = ""
    """What the first of them, or the nearest one, is, where that says more: ``"usage"``, a command
    line that was refused, ``"code"``, the word of who watched a program that failed, ``"nccl"``, a
    code of NCCL's, ``"summary"``, what names or counts what failed, ``"launcher"``, a launcher's
    own line."""
    above: LastLine | None = None
    """The line right above these errors: what ended may have written it."""
    first: bool = False
    """No line stands above these errors."""
    known: str = ""
    """Of what the line that tells the most holds, the message that says why, by its id."""
    about_peer: bool = False
    """The first of these errors, or the nearest one, only says that a peer is gone."""
    nearest: LastLine | None = None
    """Without such lines, one that reads like an error and that its program may have survived."""
    nearest_counts: bool = False
    """It has the form of an error that ends something, and no line behind it tells of work."""
    nearest_by: str = "form"
    """By what: ``"form"``; ``"word"``, a mere word or a level; ``"heading"``, one before a colon;
    ``"alone"``, a word that is none in a log but where it ends it; ``"frame"`` of a traceback of
    Python that is cut off at both ends. All but the first are no end where somebody wrote later."""
    ended: LastLine | None = None
    """The program's own word that it came to its end, with no error behind it."""
    done: LastLine | None = None
    """Its word that something came to its end, with neither an error nor work behind it."""
    closing: bool = False
    """It ends as programs do that put their things away, and told of no work before."""
    worked: int = 0
    """Which of them tells of work last; 0 where none does."""
    stopped: LastLine | None = None
    """It was told to end, by a person or a scheduler; neither work nor an error stands between."""
    not_a_number: LastLine | None = None
    """From there on its loss, or the norm of its gradients, is no number, to the end."""
    quantity: str = ""
    """What that is called: ``"eval_loss"``."""
    value: str = ""
    """What it is: ``"NaN"``, ``"infinite"``, or ``"left out"``: each step overflows."""
    step: str = ""
    """Which step that line is of: ``"step 4050"``, ``"epoch 8"``."""
    time: float | None = None
    """The last one in its file, as its clock shows it; known where a kernel log tells of a boot."""
    earlier: bool = False
    """It may have been so before: no line before that one was looked at."""
    printed: tuple[Printed, ...] = ()
    """Its numbers, those of one form together."""
    beside: bool = False
    """They are of a service beside the job, which came to its good end later by the clock."""
    stopped_in: LastLine | None = None
    """Of a text of the kind ``"stack"``, the innermost frame that does more than end a process."""
    kind: str | None = None
    """What it is if it is no log: ``"stack"``, ``"strace"``, ``"source"``; or ``"events"``,
    a table of what happened in a cluster, to this job or to others."""


@record
class Watched:
    """What somebody said who watched a program, and the program's own error above that."""

    word: LastLine
    """It tells that the program failed, by its code or by nothing, and not why."""
    said: tuple[LastLine, ...]
    """Errors above it, of what it watched: the telling one first."""
    near: bool
    """Nothing but a few lines stand between."""
    plain: bool
    """The first of them has the form of an error that ends something."""
    known: str = ""
    """See `LastLines.known`."""


@record
class FailedCell:
    """A cell of a notebook that failed, and was not run again while others were."""

    count: int
    """The number that the notebook shows beside it; 0 where it shows none."""
    error: str

    @property
    def words(self) -> str:
        return f"cell [{self.count}]" if self.count else "a cell"


@record
class EarlierRuns:
    """How runs ended that stand in a file before the one which is judged."""

    ends: tuple[LastLine | None, ...] = ()
    """Of each, the newest first, the line that it ended with; None where that is no error."""
    others: bool = False
    """The one right before is another program, which may have run beside it."""
    worked: bool = False
    """Another program works behind it, or the run itself where that one failed: its end is none of
    the job."""
    pids: frozenset[int] = frozenset()
    """Processes that their lines name."""
    cells: tuple[FailedCell, ...] = ()
    """Of a notebook, in the order in which they ran."""

    @property
    def failed(self) -> tuple[LastLine, ...]:
        """The lines of those that ended with an error, the newest first."""
        return tuple(end for end in self.ends if end is not None)

    @property
    def before(self) -> LastLine | None:
        """How the one right before ended, if that is an error, with whose line that is."""
        end = next(iter(self.ends), None)
        whose = "another program" if self.others else "an earlier run"
        return end and replace(end, text=f"{end.text} ({whose})")
