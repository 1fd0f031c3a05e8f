"""The losses of ranks in lines that nobody's prefix is in front of, where ranks raised for them."""

from collections import deque
from collections.abc import Iterator

from postmortem.facts.last_lines import LastLine, Printed
from postmortem.facts.rank_logs import RankLogs
from postmortem.knowledge.messages import Wording
from postmortem.readers.log_heads import numbered_lines
from postmortem.readers.ranklogs.bad_numbers import printed
from postmortem.readers.signatures import Signatures

_OF_RANK = Wording("loss-of-rank")
_WORD = (b"loss", b"Loss", b"LOSS")
_MOST_BYTES = 256 << 20
_MOST_RANKS = 4096
_LONGEST_LINE = 4 << 10
_LAST = 32
"""Lines of each rank, the last ones."""


def losses_of_ranks(logs: RankLogs) -> Iterator[tuple[int, Printed]]:
    """Yield the last losses of each rank that such lines name; the file is read for them again."""
    raised = (one for one in logs.failures if logs.who(one.writer).rank is not None)
    for path in dict.fromkeys(one.file for one in raised if one.said.match("numbers-not-finite")):
        rows: dict[int, deque[LastLine]] = {}
        for rank, line in _told(path):
            if rank in rows or len(rows) < _MOST_RANKS:
                rows.setdefault(rank, deque(maxlen=_LAST)).append(line)
        for rank, lines in rows.items():
            found = Signatures.load("last line").matches(line.text for line in lines)
            yield from ((rank, one) for one in printed(tuple(lines), found))


def _told(path: str) -> Iterator[tuple[int, LastLine]]:
    for number, line in numbered_lines(path, most=_MOST_BYTES, longest=_LONGEST_LINE):
        if any(word in line for word in _WORD):
            text = line.decode("utf-8", "replace").strip()
            named = _OF_RANK.search(text)
            if named is not None:
                yield int(named["rank"]), LastLine(text, path, number)
