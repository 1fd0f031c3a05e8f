"""What many looks at a busy thread have in common."""

from postmortem.diagnose.hang.hot_path import hot_path
from postmortem.facts.threads import Frame


def stack(*calls: str) -> tuple[Frame, ...]:
    """Frames from the outermost call on: ``name:line`` of Python, or a native name."""
    frames = []
    for call in calls:
        name, _, line = call.partition(":")
        kind = "python" if line else "native"
        file = "/home/user/train.py" if line else None
        frames.append(
            Frame(name, kind=kind, file=file, line=int(line) if line else None)  # type: ignore[arg-type]
        )
    return tuple(reversed(frames))


def told(*stacks: tuple[Frame, ...]) -> list[tuple[str, int | None, int]] | None:
    path = hot_path(7, stacks)
    if path is None:
        return None
    assert path.looks == len(stacks)
    return [(call.frame.function, call.frame.line, call.looks) for call in path.calls]


def test_the_path_ends_where_the_looks_part() -> None:
    looks = [
        stack("main:1", "train:5", "collate:9"),
        stack("main:1", "train:5", "collate:9"),
        stack("main:1", "train:6", "forward:3"),
        stack("main:1", "train:6", "backward:4"),
    ]
    assert told(*looks) == [("main", 1, 4), ("train", 5, 4)]


def test_of_a_loop_the_line_seen_most_often() -> None:
    looks = [stack("main:1", f"spin:{line}") for line in (4, 5, 5, 5, 6)]
    assert told(*looks) == [("main", 1, 5), ("spin", 5, 5)]
    path = hot_path(7, looks)
    assert path is not None
    assert path.own.frame.function == "spin"


def test_native_code_below_python_without_the_interpreter() -> None:
    looks = [stack("_start", "_PyEval_EvalFrameDefault", "main:1", "sort_kernel")] * 3
    assert told(*looks) == [("main", 1, 3), ("sort_kernel", None, 3)]
    path = hot_path(7, looks)
    assert path is not None
    assert path.own.frame.function == "main"


def test_half_of_the_looks_is_no_hot_path() -> None:
    looks = [stack("a:1"), stack("a:1"), stack("b:1"), stack("c:1")]
    assert told(*looks) is None


def test_too_few_looks_tell_nothing() -> None:
    assert told(stack("main:1"), stack("main:1")) is None
    assert hot_path(7, []) is None
