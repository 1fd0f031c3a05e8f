"""Python frames merged into native stacks, whole and damaged ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postmortem.facts.python_stacks import PythonFrame
from postmortem.facts.threads import Frame, Trust
from postmortem.readers.python_frames import place_python

EVAL = "_PyEval_EvalFrameDefault"


def native(*names: str) -> tuple[Frame, ...]:
    return tuple(Frame(name, pc=index) for index, name in enumerate(names))


def python(*rows: tuple[str, int]) -> list[PythonFrame]:
    return [PythonFrame(name, "job.py", 7, evaluators) for name, evaluators in rows]


def names(frames: tuple[Frame, ...]) -> list[str]:
    return [frame.function for frame in frames]


def test_each_run_stands_before_its_evaluator() -> None:
    merged = place_python(
        native("memcpy", EVAL, "_PyFunction_Vectorcall", "list_sort", EVAL, "main"),
        python(("string_at", 0), ("crash", 1), ("key", 0), ("<module>", 1)),
    ).frames
    assert names(merged) == [
        "memcpy",
        "string_at",
        "crash",
        EVAL,
        "_PyFunction_Vectorcall",
        "list_sort",
        "key",
        "<module>",
        EVAL,
        "main",
    ]
    assert [f.kind for f in merged].count("python") == 4


def test_a_python_frame_keeps_what_is_known_of_it() -> None:
    row = PythonFrame("Loader.read", "data.py", 12, 1, (("n", "3"),))
    (frame, _) = place_python(native(EVAL), [row]).frames
    assert frame == Frame(
        "Loader.read",
        kind="python",
        file="data.py",
        line=12,
        trust=Trust.PYTHON,
        locals=(("n", "3"),),
    )


@pytest.mark.parametrize(
    "name",
    [
        f"{EVAL}.cold",
        f"{EVAL}.cold.123",
        f"{EVAL}.lto_priv.0",
        f"{EVAL}.constprop.0.isra.0",
        f"{EVAL} [clone .cold]",
        f"{EVAL}(PyThreadState*, PyFrameObject*, int)",
        f"{EVAL}.llvm.1234567890",
    ],
)
def test_parts_and_clones_of_the_evaluator(name: str) -> None:
    placed = place_python(native("f", name, "main"), python(("step", 1)))
    assert (names(placed.frames), placed.unplaced) == (["f", "step", name, "main"], 0)


def test_names_that_only_look_like_it() -> None:
    placed = place_python(
        native("_PyEval_EvalFrame", f"my{EVAL}", f"{EVAL}Hook", "main"), python(("step", 1))
    )
    assert placed.unplaced == 1


def test_the_tail_calling_evaluator_is_one_call() -> None:
    placed = place_python(
        native("f", "_TAIL_CALL_CALL_FUNCTION_EX", EVAL, "g", "_TAIL_CALL_CALL.llvm.99", "main"),
        python(("inner", 1), ("outer", 1)),
    )
    assert names(placed.frames) == [
        "f",
        "_TAIL_CALL_CALL_FUNCTION_EX",
        "inner",
        EVAL,
        "g",
        "outer",
        "_TAIL_CALL_CALL.llvm.99",
        "main",
    ]


def test_evaluators_without_frames() -> None:
    # A destructor runs while the frame of an entry function is left (3.12 and later).
    merged = place_python(
        native("free", EVAL, "dealloc", EVAL, "subtype_dealloc", EVAL, "main"),
        python(("__del__", 2), ("<module>", 1)),
    ).frames
    assert names(merged)[1:6] == ["__del__", EVAL, "dealloc", EVAL, "subtype_dealloc"]
    idle = place_python(native("free", EVAL, "x", EVAL), python(("<module>", 1)), idle=1).frames
    assert names(idle) == ["free", EVAL, "x", "<module>", EVAL]


def test_without_names_the_python_frames_stand_together() -> None:
    placed = place_python(native("??", "??", "main"), python(("inner", 1), ("outer", 1)))
    assert names(placed.frames) == ["??", "??", "main", "inner", "outer"]
    assert placed.unplaced == 2


def test_counts_that_do_not_fit_match_nothing() -> None:
    placed = place_python(native(EVAL, "a", EVAL, "b", EVAL), python(("inner", 1), ("outer", 1)))
    assert names(placed.frames)[-2:] == ["inner", "outer"]
    assert placed.unplaced == 2


def test_leftovers_found_by_a_scan_are_not_evaluators() -> None:
    frames = (*native("f", EVAL), Frame(EVAL, pc=9, trust=Trust.SCAN), *native(EVAL, "main"))
    placed = place_python(frames, python(("inner", 1), ("outer", 1)))
    assert placed.unplaced == 0
    assert names(placed.frames) == ["f", "inner", EVAL, EVAL, "outer", EVAL, "main"]


def test_a_native_stack_cut_off_keeps_its_inner_evaluators() -> None:
    placed = place_python(
        native("f", EVAL, "g"), python(("inner", 1), ("middle", 1), ("outer", 1)), complete=False
    )
    assert names(placed.frames) == ["f", "inner", EVAL, "g", "middle", "outer"]
    assert placed.unplaced == 0


def test_a_python_chain_cut_off_keeps_its_inner_frames() -> None:
    placed = place_python(
        native("f", EVAL, "g", EVAL, "main"), python(("inner", 1), ("?", 0)), python_complete=False
    )
    assert names(placed.frames) == ["f", "inner", EVAL, "g", EVAL, "main", "?"]


def test_a_gap_in_the_native_stack_takes_the_frames_between() -> None:
    rows = python(*((f"down {n}", 1) for n in range(6)))
    placed = place_python(native("f", EVAL, EVAL, EVAL, EVAL, "main"), rows, skipped_at=3)
    assert names(placed.frames) == [
        "f",
        "down 0",
        EVAL,
        "down 1",
        EVAL,
        "down 2",
        "down 3",
        "down 4",
        EVAL,
        "down 5",
        EVAL,
        "main",
    ]
    assert placed.skipped_at == 7
    # The gap comes right before the first native frame behind it and that one's Python frame.
    assert names(placed.frames)[placed.skipped_at] == "down 4"


def test_a_gap_in_the_python_stack() -> None:
    rows = python(("down 0", 1), ("down 1", 1), ("down 8", 1), ("down 9", 1))
    placed = place_python(native("f", *[EVAL] * 10, "main"), rows, python_skipped_at=2)
    found = names(placed.frames)
    assert found[:5] == ["f", "down 0", EVAL, "down 1", EVAL]
    assert found[-5:] == ["down 8", EVAL, "down 9", EVAL, "main"]
    assert placed.unplaced == 0


def test_a_greenlet_stands_above_those_that_it_was_switched_to_from() -> None:
    begin = "greenlet::UserGreenlet::inner_bootstrap(_greenlet*, _object*)"
    stack = native("abort", EVAL, "slot_tp_finalize", EVAL, begin, "g_switch", EVAL, EVAL, "main")
    rows = python(("value", 1), ("work", 1))
    placed = place_python(stack, rows)
    assert names(placed.frames)[:6] == ["abort", "value", EVAL, "slot_tp_finalize", "work", EVAL]
    assert placed.unplaced == 0
    # where the numbers do not fit there either, nothing is guessed
    assert place_python(stack, rows[:1]).unplaced == 1


def test_inlined_frames_are_not_calls() -> None:
    frames = (Frame(EVAL, pc=1, inlined=True), *native(EVAL, "main"))
    assert names(place_python(frames, python(("step", 1))).frames) == [EVAL, "step", EVAL, "main"]


@given(
    st.lists(st.sampled_from(["f", EVAL, "??", "_TAIL_CALL_LOAD", f"{EVAL}.cold"]), max_size=12),
    st.lists(st.integers(0, 3), max_size=12),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 13)),
    st.one_of(st.none(), st.integers(0, 13)),
    st.booleans(),
    st.booleans(),
)
def test_no_frame_is_lost_or_moved_past_another(
    functions: list[str],
    evaluators: list[int],
    idle: int,
    gap: int | None,
    python_gap: int | None,
    complete: bool,
    python_complete: bool,
) -> None:
    stack = native(*functions)
    rows = [PythonFrame(f"p{i}", evaluators=n) for i, n in enumerate(evaluators)]
    placed = place_python(
        stack,
        rows,
        idle=idle,
        skipped_at=gap,
        python_skipped_at=python_gap,
        complete=complete,
        python_complete=python_complete,
    )
    assert tuple(f for f in placed.frames if f.kind == "native") == stack
    assert [f.function for f in placed.frames if f.kind == "python"] == [r.function for r in rows]
    if placed.skipped_at is not None and gap is not None and gap <= len(stack):
        before = placed.frames[: placed.skipped_at]
        assert sum(f.kind == "native" for f in before) == gap
