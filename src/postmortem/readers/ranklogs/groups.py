"""Exception groups: the tree that the margins of their tracebacks draw."""

from collections.abc import Iterable

from postmortem.facts.rank_logs import ExceptionText, GroupPart, LogFrame
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.lines import Shape, shape_of
from postmortem.records import replace

# "  + Exception Group Traceback", "  | ExceptionGroup: …", "  +-+---- 1 ----", "    | OSError: …"
_MARGIN = Pattern(r"^(?P<indent> *)(?P<edge>[|+])(?P<rest>.*)$")
_DEEPEST = 64
_MOST_NODES = 2000


class _Node:
    """An exception as its lines come."""

    def __init__(self, said: ExceptionText, depth: int) -> None:
        self.said = said
        self.depth = depth
        self.causes: tuple[ExceptionText, ...] = ()
        self.parts: list[_Node] = []
        self.frames: tuple[LogFrame, ...] = ()

    def made(self) -> GroupPart:
        parts = tuple(part.made() for part in self.parts)
        return GroupPart(self.said, self.causes, parts, self.frames)


def group_tree(texts: Iterable[str]) -> GroupPart | None:
    """Return the tree of the first group in these lines, margins and all; None where none is."""
    path: list[_Node] = []
    chained: dict[int, tuple[ExceptionText, ...]] = {}
    frames: list[LogFrame] = []
    count = 0
    for text in texts:
        margin = _MARGIN.match(text)
        if margin is None:
            if path:
                break
            continue
        depth = len(margin["indent"]) // 2
        body = margin["rest"].removeprefix(" ")
        if margin["edge"] == "+" or depth > _DEEPEST or count > _MOST_NODES:
            continue
        line = shape_of(1, 1, body)
        if line.shape is Shape.HEAD:
            frames.clear()
        elif line.shape is Shape.FRAME and line.file is not None:
            frames.append(LogFrame(line.file, line.at, line.function))
        elif line.shape is Shape.CODE and frames and frames[-1].code is None:
            frames[-1] = replace(frames[-1], code=line.text.strip())
        elif line.shape is Shape.CAUSE and path and path[-1].depth >= depth:
            _cause(path, depth, chained)
        elif line.shape is Shape.EXCEPTION and line.exception is not None:
            count += 1
            node = _Node(ExceptionText(line.exception, line.message), depth)
            node.causes = chained.pop(depth, ())
            node.frames = tuple(frames)
            frames.clear()
            while path and path[-1].depth >= depth:
                if len(path) == 1:  # what the group itself was raised from
                    return path[0].made()
                path.pop()
            if path:
                path[-1].parts.append(node)
            path.append(node)
    return path[0].made() if path and path[0].parts else None


def _cause(path: list[_Node], depth: int, chained: dict[int, tuple[ExceptionText, ...]]) -> None:
    """What was read last at this depth is what the next one there comes from."""
    while path and path[-1].depth > depth:
        path.pop()
    if len(path) < 2:
        return
    node = path.pop()
    if node in path[-1].parts:
        path[-1].parts.remove(node)
    chained[depth] = (*node.causes, node.said)


def group_text(rows: Iterable[tuple[int, int, str]], last: int) -> str:
    """Return the lines up to number `last`, and the margins that go on behind it."""
    kept = []
    for number, _, text in rows:
        if number > last and _MARGIN.match(text) is None:
            break
        kept.append(text)
    return "\n".join(kept)
