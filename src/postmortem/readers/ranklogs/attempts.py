"""Which attempt of a job each line is from: launchers start a failed job again.

torchrun --max-restarts stops all processes of an agent, says ``failed (exitcode: …)`` once, and
starts them anew; what they write goes on in the same console. Slurm does the same with a job that
it requeues (``--open-mode=append``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.known_lines import KnownLines

if TYPE_CHECKING:
    from postmortem._native import RawRankLog

_AGENT = Pattern(r"^[A-Z]\d{4} [\d:.]+ (?P<pid>\d{1,18}) ")
_KERNEL = Pattern(r"\b(?:kernel|NVRM): ")
"""A kernel's log that was put below what the job wrote."""
_SUMMARY = ("torchrun-summary", "torchrun-rank", "torchelastic-rootcause")
_MARKS = ("torchrun-group-failed", "torchrun-restarts", "slurm-starts-again")
_OF_AGENT = ("torchrun-agent", "torchrun-summary")
_FEW = 12
"""So many lines of all writers between two lines of Slurm on the same end."""


class FileAttempts:
    """The attempts of one file."""

    def __init__(self, raw: RawRankLog, number: int | None, known: KnownLines) -> None:
        self._raw = raw
        self._known = known
        self._number = number
        agents: dict[object, list[int]] = {}
        for place, (_, label, text) in enumerate(raw["marks"]):
            found = _AGENT.search(text)
            said = known.of(text)
            if not any(name in said for name in _MARKS):
                continue  # whoever tells of a log may quote the half of a line
            slurm = "slurm-starts-again" in said
            key = "slurm" if slurm else (label, found and found["pid"])
            mine = agents.setdefault(key, [])
            if mine and not slurm and self._gave_up_between(mine[-1], place):
                mine = agents[*key, place] = []  # in its own container, each has the same pid
            again = "torchrun-restarts" in said and said["torchrun-restarts"]["left"]
            follows = again and mine and self._gives_up(mine[-1])
            if follows or (slurm and mine and self._between(mine[-1], place) <= _FEW):
                mine[-1] = place
            else:
                mine.append(place)
        self._agents = agents
        self._most = max(agents.values(), key=len, default=[])
        ends = len(self._most)
        self.count = 1 if number is None else number + 1
        """Attempts that this file knows of; 1 where nothing was started again."""
        if ends and number is None:
            self.count = ends + self._goes_on(self._most[-1])
        self.known = number is not None or ends > 0

    def _gives_up(self, place: int) -> bool:
        return "torchrun-group-failed" in self._known.of(self._raw["marks"][place][2])

    def _gave_up_between(self, first: int, second: int) -> bool:
        """Return whether a summary stands between two marks: its agent starts nothing again."""
        begin, end = (self._raw["marks"][place][0] for place in (first, second))
        return any(
            "torchelastic-rootcause" in self._known.of(row[2])
            for region in self._raw["regions"]
            for row in region[3]
            if begin < row[0] < end
        )

    def _is_agent(self, text: str) -> bool:
        return bool(_AGENT.search(text)) or any(name in self._known.of(text) for name in _OF_AGENT)

    def _between(self, first: int, second: int) -> int:
        marks = self._raw["marks"]
        return marks[second][0] - marks[first][0]

    def _goes_on(self, place: int) -> bool:
        """Return whether processes wrote after a mark: the agent's summary is no such thing."""
        line, agent, text = self._raw["marks"][place]
        if self._gave_up_behind(line):
            return False
        for _, _, _, rows, *_ in self._raw["regions"]:
            if rows[-1][0] > line and any(
                number > line and any(name in self._known.of(row) for name in _SUMMARY)
                for number, _, row in rows
            ):
                return False
        labels = self._raw["labels"]
        if "slurm-starts-again" in self._known.of(text):
            last = [word for label in labels for word in label["last_words"] if word]
            return any("slurm-line" not in self._known.of(word) for word in last) and any(
                label["lines"] - label["at_marks"][place] > _FEW for label in labels
            )
        after = [i for i, x in enumerate(labels) if x["lines"] > x["at_marks"][place]]
        # Ranks of other hosts write on for a while; where all were started again, all hosts do.
        nodes: dict[object, bool] = {}
        for i, label in enumerate(labels):
            if i != agent and label["lines"]:
                node = label["task"] if label["task"] is not None else label["host"]
                nodes[node] = nodes.get(node, False) or i in after
        if nodes and all(nodes.values()):
            return True
        if len(nodes) > 1:
            return False
        # Without prefixes the agent's lines and those of the ranks have one label.
        written = (word for word in labels[agent]["last_words"] if word)
        words = [
            word
            for word in written
            if "slurm-line" not in self._known.of(word) and not _KERNEL.search(word)
        ]
        done = any("torchrun-finished" in self._known.of(word) for word in words)
        return bool(after) and bool(words) and (done or not self._is_agent(words[-1]))

    def _gave_up_behind(self, line: int) -> bool:
        """Return whether a launcher raises behind a line: it starts nothing again.

        What it raises may be cut off, even above its own frames, or stand behind another program's
        prefix.
        """
        rows = [(row[0], row[2]) for region in self._raw["regions"] for row in region[3]]
        rows += [(row[0], row[1]) for label in self._raw["labels"] for row in label["tail"]]
        return any(
            "launcher-frame" in self._known.of(text)
            or (number == line + 1 and text.startswith("Traceback "))
            for number, text in rows
            if number > line
        )

    def _marks_for(self, label: int) -> list[int]:
        """Return the marks of the agent that started who writes under a label."""
        labels = self._raw["labels"]
        mine = labels[label]
        for key, marks in self._agents.items():
            if not isinstance(key, tuple):
                continue
            agent = labels[key[0]]
            same_task = agent["task"] is not None and agent["task"] == mine["task"]
            same_host = agent["host"] is not None and agent["host"] == mine["host"]
            if len(marks) == len(self._most) and (same_task or same_host):
                return marks
        return self._most

    def at(self, label: int, line: int) -> int | None:
        """Return the attempt, from 0, that a line is of; None where this file does not say."""
        if self._number is not None:
            return self._number
        if not self.known:
            return None
        before = sum(self._raw["marks"][place][0] < line for place in self._marks_for(label))
        return min(before, self.count - 1)

    def lines_until(self, label: int, line: int) -> int:
        """Return how many lines a label has up to the end of the attempt that a line is of."""
        for place in self._marks_for(label):
            if self._raw["marks"][place][0] >= line:
                return self._raw["labels"][label]["at_marks"][place]
        return self._raw["labels"][label]["lines"]
