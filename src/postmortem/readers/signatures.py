"""Known lines in any text: all signatures of the knowledge base in one pass.

    known = Signatures.load()
    for hit in known.find(data):
        print(hit.line_number, hit.id, hit.role, hit.groups)

The work is done by csrc/signatures: every byte goes through one filter, the patterns run only on
lines that hold one of their texts, in time bounded by the length of the line.
"""

from __future__ import annotations

import array
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from postmortem.facts.signature import Brief, Hit, Match, Signature, Tally
from postmortem.readers.regular import open_regular, unread

if TYPE_CHECKING:
    from postmortem._native import RawHit

Data: TypeAlias = bytes | bytearray | memoryview

BLOCK_BYTES = 1 << 20
"""What the second-level cache holds."""
LINE_BYTES = 4 << 20
"""A line that goes on for longer is cut: no memory is spent on a file without line ends."""
LONGEST_TEXT = 64 << 10
_FEW, _SHORT, _KEPT = 64, 500, 4096
"""Of so few lines at once, what is in each that is so short is kept, of so many at most: the last
lines of a file are looked at for each failure in it, and by several readers."""
MOST_HITS = 10_000
"""Of one signature; a log may repeat one line a hundred million times."""
TEXT = frozenset({"log", "kernel log", "scheduler log", "ncclras"})
"""What is looked for unless something else is asked for: a log may hold any of them."""


class Signatures:
    """Signatures that were compiled together; safe to use from several threads."""

    def __init__(self, signatures: Iterable[Signature | Brief]) -> None:
        """Compile those that have a pattern; raises ValueError for one that cannot be."""
        from postmortem import _native

        self.signatures = tuple(item for item in signatures if item.pattern is not None)
        self._native = _native
        self._compiled = _native.compile_signatures(
            [item.pattern or "" for item in self.signatures]
        )
        self._kept: dict[str, tuple[Match, ...]] = {}

    @classmethod
    def load(cls, *where: str) -> Signatures:
        """Return those of the knowledge base for some kinds of evidence; without any, for text.

        They are read and compiled once in the life of a process.
        """
        return _load(frozenset(where) or TEXT)

    @cached_property
    def _bare(self) -> tuple[Match, ...]:
        """A match of each signature that captures nothing: one object for all lines."""
        return tuple(Match(item.id, {}) for item in self.signatures)

    def find(self, data: Data, *, each: int = MOST_HITS) -> tuple[Hit, ...]:
        """Return the hits in a text, by line; of each signature the first `each`."""
        return self.tally(data, each=each).hits

    def tally(self, data: Data, *, each: int = MOST_HITS) -> Tally:
        """Return the hits as `find` does, and in how many lines each signature stands."""
        rows, counts, line_ends = self._native.scan_signatures(self._compiled, data, each)
        hits = tuple(self._hit(row, 0, 0) for row in rows)
        lines = line_ends + bool(len(data) and data[-1:] != b"\n")
        return Tally(hits, self._counts(counts), lines)

    def matches(self, texts: Iterable[str]) -> list[tuple[Match, ...]]:
        """Return, for each text as a whole, the messages that it holds, in the order of `self`.

        Of a text only the first 64 Ki characters are looked at.
        """
        texts = list(texts)
        if len(texts) > _FEW:
            return self._look(texts)
        kept = self._kept
        new = [text for text in dict.fromkeys(texts) if text not in kept]
        rows = dict(zip(new, self._look(new), strict=True)) if new else {}
        found = [rows[text] if text in rows else kept[text] for text in texts]
        if len(kept) + len(rows) > _KEPT:  # another thread may still read the one before
            self._kept = kept = {}
        kept.update((text, row) for text, row in rows.items() if len(text) <= _SHORT)
        return found

    def _look(self, texts: Iterable[str]) -> list[tuple[Match, ...]]:
        begins, ends = array.array("q"), array.array("q")
        pieces: list[bytes] = []
        at = 0
        for text in texts:
            piece = _bytes(text[:LONGEST_TEXT])
            begins.append(at)
            at += len(piece)
            ends.append(at)
            pieces.append(piece)
        found: dict[int, list[Match]] = {}
        data = b"".join(pieces)
        scan = self._native.scan_signature_lines
        rows = scan(self._compiled, data, begins, ends) if data else []
        for line, number, groups in rows:
            match = Match(self.signatures[number].id, groups) if groups else self._bare[number]
            found.setdefault(line, []).append(match)
        return [tuple(found.get(line, ())) for line in range(len(pieces))]

    def literals(self) -> list[list[str]]:
        """Return, for each signature, the texts of which every line of it has one."""
        return self._native.signature_literals(self._compiled)

    def tally_file(self, path: str, *, each: int = MOST_HITS) -> Tally:
        """Return the hits and the counts of a file, as `tally` does of data."""
        from postmortem.errors import EvidenceError

        try:
            with open_regular(path) as stream:
                return self.tally_blocks(blocks_of(stream), each=each)
        except OSError as error:
            raise EvidenceError(path, unread(error)) from error

    def tally_blocks(self, blocks: Iterable[bytes], *, each: int = MOST_HITS) -> Tally:
        """Return the hits and the counts of a text that comes in blocks, cut anywhere."""
        hits: list[Hit] = []
        totals = [0] * len(self.signatures)
        offset = lines = 0
        last: Data = b""
        for piece in _whole_lines(blocks):
            rows, counts, line_ends = self._native.scan_signatures(self._compiled, piece, each)
            room = [max(each - total, 0) for total in totals]
            for row in rows:
                if room[row[0]]:
                    room[row[0]] -= 1
                    hits.append(self._hit(row, offset, lines))
            for number, count in enumerate(counts):
                totals[number] += count
            offset += len(piece)
            lines += line_ends
            last = piece
        lines += bool(last) and last[-1:] != b"\n"
        return Tally(tuple(hits), self._counts(totals), lines)

    def _hit(self, row: RawHit, offset: int, line: int) -> Hit:
        number, begin, _, at_line, text, groups = row
        item = self.signatures[number]
        return Hit(item.id, item.role, offset + begin, line + at_line + 1, text, groups, number)

    def _counts(self, counts: Iterable[int]) -> dict[str, int]:
        pairs = zip(self.signatures, counts, strict=True)
        return {item.id: count for item, count in pairs if count}


@lru_cache(maxsize=8)
def _load(where: frozenset[str]) -> Signatures:
    from postmortem.knowledge.messages import briefs

    return Signatures(item for item in briefs().values() if where.intersection(item.where))


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character, as JSON may name one
        return text.encode("utf-8", "replace")


def blocks_of(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked, up to where a packed one is damaged."""
    from postmortem.readers.codecs import StreamError, decoded
    from postmortem.readers.formats import HEAD_BYTES, compression_of

    compression = compression_of(stream.read(HEAD_BYTES))
    stream.seek(0)
    if compression is None:
        yield from iter(lambda: stream.read(BLOCK_BYTES), b"")
        return
    try:
        yield from decoded(stream, compression)
    except StreamError:  # whoever reads the file as evidence tells of it
        return


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[Data]:
    """Yield the text in pieces that end with a line; a line of over LINE_BYTES is cut.

    Only what is cut by a block's border is copied.
    """
    left: list[bytes] = []
    size = 0
    for block in blocks:
        first = block.find(b"\n") + 1
        if not first and size + len(block) <= LINE_BYTES:
            left.append(block)
            size += len(block)
            continue
        end = block.rfind(b"\n") + 1 or len(block)
        if left:
            first = first or len(block)
            yield b"".join([*left, block[:first]])
        else:
            first = 0
        if first < end:
            yield memoryview(block)[first:end]
        left = [block[end:]] if end < len(block) else []
        size = len(block) - end
    if size:
        yield b"".join(left)
