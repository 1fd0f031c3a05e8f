"""One stack out of our walk and gdb's."""

from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem.facts.memory import CodeRanges
from postmortem.facts.threads import Frame, Trust
from postmortem.readers.gdb.answers import SourceLine
from postmortem.readers.gdb.merge import merge_stack
from postmortem.records import replace


def ours(pc: int, name: str = "??", trust: Trust = Trust.CFI) -> Frame:
    return Frame(function=name, pc=pc, module="/m.so", module_offset=pc - 0x1000, trust=trust)


def theirs(pc: int, name: str = "??", **more: object) -> Frame:
    module = None if name == "??" else "/m.so"
    return Frame(function=name, pc=pc, module=module, trust=Trust.GDB, **more)  # type: ignore[arg-type]


def names(frames: tuple[Frame, ...]) -> list[str]:
    return [frame.function for frame in frames]


def test_gdb_adds_lines_arguments_and_a_fuller_name() -> None:
    native = (ours(0x10, "step", Trust.CONTEXT), ours(0x20, "main"))
    gdb = (
        theirs(
            0x10,
            "step(int)",
            file="/a.cpp",
            line=7,
            arguments=(("n", "3"),),
            locals=(("got", "4"),),
        ),
        theirs(0x20, "main"),
    )
    merged = merge_stack(native, gdb, {})
    assert merged.disagreement is None
    top = merged.frames[0]
    assert (top.function, top.file, top.line) == ("step(int)", "/a.cpp", 7)
    assert (top.arguments, top.locals) == ((("n", "3"),), (("got", "4"),))
    assert (top.trust, top.module_offset) == (Trust.CONTEXT, 0x10 - 0x1000)


def test_inlined_frames_stand_before_their_physical_frame_and_are_no_difference() -> None:
    native = (ours(0x10, "step(int)", Trust.CONTEXT), ours(0x20, "main"))
    gdb = (
        theirs(0x10, "store", inlined=True, file="/s.h", line=1),
        theirs(0x10, "step(int)", file="/a.cpp", line=7),
        theirs(0x20, "main"),
    )
    merged = merge_stack(native, gdb, {})
    assert names(merged.frames) == ["store", "step(int)", "main"]
    assert [frame.inlined for frame in merged.frames] == [True, False, False]
    assert merged.frames[0].trust is Trust.CONTEXT
    assert merged.frames[0].module == "/m.so"
    assert merged.disagreement is None


def test_tail_call_frames_are_shown_and_no_difference() -> None:
    native = (ours(0x10, "leaf"), ours(0x30, "main"))
    gdb = (theirs(0x10, "leaf"), theirs(0x28, "gone", tail_call=True), theirs(0x30, "main"))
    merged = merge_stack(native, gdb, {})
    assert names(merged.frames) == ["leaf", "gone", "main"]
    assert merged.frames[1].tail_call
    assert merged.disagreement is None


def test_alias_of_the_same_address_does_not_replace_the_name() -> None:
    merged = merge_stack((ours(0x10, "pause"),), (theirs(0x10, "__libc_pause"),), {})
    assert names(merged.frames) == ["pause"]


def test_name_comes_from_gdb_where_we_have_none() -> None:
    merged = merge_stack((ours(0x10),), (theirs(0x10, "hidden_static"),), {})
    assert names(merged.frames) == ["hidden_static"]


def test_templates_do_not_hide_that_two_names_are_one() -> None:
    merged = merge_stack(
        (ours(0x10, "at::Tensor::data_ptr"),),
        (theirs(0x10, "at::Tensor::data_ptr<std::map<int, (anonymous namespace)::x>>(int) const"),),
        {},
    )
    assert merged.frames[0].function.startswith("at::Tensor::data_ptr<")


def test_without_our_walk_the_frames_are_those_of_gdb() -> None:
    gdb = (theirs(0x10, "a", inlined=True), theirs(0x10, "b"), theirs(0x20, "c"))
    merged = merge_stack((), gdb, {})
    assert merged.frames == gdb
    assert {frame.trust for frame in merged.frames} == {Trust.GDB}
    assert merged.disagreement is None


def test_without_gdb_our_walk_stands_and_gets_lines() -> None:
    lines = {
        0x10: (SourceLine("store", "/s.h", 1, inlined=True), SourceLine("step(int)", "/a.cpp", 7))
    }
    merged = merge_stack((ours(0x10, "step"), ours(0x20, "main")), (), lines)
    assert names(merged.frames) == ["store", "step(int)", "main"]
    assert [(frame.file, frame.line) for frame in merged.frames] == [
        ("/s.h", 1),
        ("/a.cpp", 7),
        (None, None),
    ]
    assert merged.frames[0].inlined
    assert merged.disagreement is None


def test_our_longer_walk_stands_and_the_difference_is_told(prose: Prose) -> None:
    native = (ours(0x10, "a", Trust.CONTEXT), ours(0x20, "b"), ours(0x30, "c"))
    merged = merge_stack(native, (theirs(0x10, "a"),), {0x20: (SourceLine("b", "/b.c", 5),)})
    assert names(merged.frames) == ["a", "b", "c"]
    assert merged.frames[1].line == 5
    prose(merged.disagreement)


def test_longer_walk_of_gdb_is_appended_and_marked(prose: Prose) -> None:
    gdb = (theirs(0x10, "a"), theirs(0x20, "b"), theirs(0x30, "c"))
    merged = merge_stack((ours(0x10, "a", Trust.CONTEXT),), gdb, {})
    assert names(merged.frames) == ["a", "b", "c"]
    assert [frame.trust for frame in merged.frames] == [Trust.CONTEXT, Trust.GDB, Trust.GDB]
    prose(merged.disagreement)


def test_words_of_the_stack_at_the_end_of_gdbs_walk_are_no_frames() -> None:
    # MKL sgemm kernels have no unwind tables: gdb 13 ended in two nameless words of the stack.
    gdb = (theirs(0x10, "sgemm"), theirs(0x3F800000), theirs(0x0))
    merged = merge_stack((ours(0x10, "sgemm", Trust.CONTEXT),), gdb, {})
    assert names(merged.frames) == ["sgemm"]
    assert merged.disagreement is None


def test_proven_frames_win_where_the_walks_part(prose: Prose) -> None:
    native = (ours(0x10, "a", Trust.CONTEXT), ours(0x20, "b"), ours(0x30, "c"))
    gdb = (theirs(0x10, "a"), theirs(0x99, "wrong"))
    merged = merge_stack(native, gdb, {})
    assert names(merged.frames) == ["a", "b", "c"]
    prose(merged.disagreement)


def test_scanned_frames_give_way_to_those_of_gdb() -> None:
    native = (ours(0x10, "a", Trust.CONTEXT), ours(0x20, "leftover", Trust.SCAN))
    gdb = (theirs(0x10, "a"), theirs(0x40, "b"), theirs(0x50, "c"))
    merged = merge_stack(native, gdb, {})
    assert names(merged.frames) == ["a", "b", "c"]
    assert merged.disagreement is not None
    assert "gdb is followed" in merged.disagreement


def test_scanned_frames_do_not_give_way_to_nameless_ones() -> None:
    native = (ours(0x10, "a", Trust.CONTEXT), ours(0x20, "b", Trust.SCAN), ours(0x30, "clone3"))
    gdb = (theirs(0x10, "a"), theirs(0x40), theirs(0x50))
    merged = merge_stack(native, gdb, {})
    assert names(merged.frames) == ["a", "b", "clone3"]


def test_walks_that_meet_again_stay_joined_and_keep_proven_frames(prose: Prose) -> None:
    native = (ours(0x10, "a", Trust.CONTEXT), ours(0x20, "b"), ours(0x30, "c"))
    merged = merge_stack(native, (theirs(0x10, "a"), theirs(0x30, "c", file="/c.c", line=2)), {})
    assert names(merged.frames) == ["a", "b", "c"]
    assert merged.frames[2].line == 2
    prose(merged.disagreement)


def test_frame_that_only_gdb_has_in_the_middle_is_left_out_when_ours_is_proven() -> None:
    gdb = (theirs(0x10, "a"), theirs(0x18, "odd"), theirs(0x20, "b"))
    proven = (ours(0x10, "a", Trust.CONTEXT), ours(0x20, "b"))
    merged = merge_stack(proven, gdb, {})
    assert names(merged.frames) == ["a", "b"]
    assert merged.disagreement is not None
    assert "left out" in merged.disagreement
    guessed = (ours(0x10, "a", Trust.SCAN), ours(0x20, "b"))
    assert names(merge_stack(guessed, gdb, {}).frames) == ["a", "odd", "b"]


def test_another_innermost_frame_means_another_thread_and_nothing_is_taken(prose: Prose) -> None:
    merged = merge_stack((ours(0x10, "a"),), (theirs(0x99, "b", line=3),), {})
    assert names(merged.frames) == ["a"]
    prose(merged.disagreement)


def test_recursion_is_matched_frame_by_frame() -> None:
    native = tuple(ours(0x10, "again") for _ in range(300))
    gdb = tuple(theirs(0x10, "again(int)") for _ in range(290))
    merged = merge_stack(native, gdb, {})
    assert len(merged.frames) == 300
    assert merged.disagreement is not None
    assert "10 more frames" in merged.disagreement


def test_only_two_different_callers_are_a_parting() -> None:
    native = (ours(0x10, "a", Trust.CONTEXT), ours(0x20, "b"), ours(0x30, "c"))
    parted = merge_stack(native, (theirs(0x10, "a"), theirs(0x50, "x"), theirs(0x30, "c")), {})
    assert parted.parted_after is not None
    assert parted.parted_after.function == "a"
    shorter = merge_stack(native, (theirs(0x10, "a"),), {})
    assert shorter.disagreement is not None
    assert shorter.parted_after is None
    assert merge_stack(native, (theirs(0x10, "a"), theirs(0x20, "b")), {}).parted_after is None


def lined(frame: Frame, file: str, line: int, **more: object) -> Frame:
    return replace(frame, file=file, line=line, **more)


def test_our_lines_are_taken_for_calls_that_both_know() -> None:
    # gdb 13 gave checkWork the line of a header, because the call's own row begins no statement
    native = (lined(ours(0x10, "checkWork", Trust.CONTEXT), "/t.cpp", 11), ours(0x20, "main"))
    gdb = (theirs(0x10, "checkWork", file="/new_allocator.h", line=90, arguments=(("n", "3"),)),)
    top = merge_stack(native, gdb, {}).frames[0]
    assert (top.file, top.line, top.arguments) == ("/t.cpp", 11, (("n", "3"),))


def test_inlined_calls_that_only_one_of_both_knows_are_kept() -> None:
    inner = lined(ours(0x10, "inner"), "/a.h", 1, inlined=True)
    native = (inner, lined(ours(0x10, "outer", Trust.CONTEXT), "/a.cpp", 7), ours(0x20, "main"))
    unknown = merge_stack(native, (theirs(0x10, "outer"), theirs(0x20, "main")), {}).frames
    assert [(f.function, f.line, f.inlined) for f in unknown] == [
        ("inner", 1, True),
        ("outer", 7, False),
        ("main", None, False),
    ]
    gdb = (
        theirs(0x10, "deep", inlined=True, file="/b.h", line=5),
        theirs(0x10, "inner", inlined=True, file="/a.h", line=2),
        theirs(0x10, "outer(int)", file="/a.cpp", line=8),
    )
    fuller = merge_stack(native, gdb, {}).frames
    assert [(f.function, f.line) for f in fuller[:3]] == [
        ("deep", 5),
        ("inner", 2),
        ("outer(int)", 8),
    ]
    assert [f.line for f in merge_stack(native, (), {}).frames] == [1, 7, None]


_pcs = st.lists(st.integers(1, 6).map(lambda n: n * 16), max_size=8)


@given(_pcs, st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=12))
def test_no_proven_physical_frame_is_ever_lost(
    pcs: list[int], told: list[tuple[int, bool]]
) -> None:
    native = tuple(ours(pc, f"f{pc}") for pc in pcs)
    gdb = tuple(theirs(n * 16, f"g{n}", inlined=inlined) for n, inlined in told)
    merged = merge_stack(native, gdb, {})
    kept = iter(frame.pc for frame in merged.frames if frame.trust is Trust.CFI)
    assert all(pc in kept for pc in pcs)


CODE = CodeRanges(((0x10, 0x100), (0x200, 0x300)))


def test_frames_of_gdb_that_point_to_no_code_are_words_of_the_stack() -> None:
    native = (ours(0x10, "c", Trust.CONTEXT),)
    gdb = (theirs(0x10, "c"), theirs(0x20, "b"), theirs(0x7FFF0000), theirs(0x30, "a"))
    merged = merge_stack(native, gdb, {}, code=CODE)
    assert [frame.pc for frame in merged.frames] == [0x10, 0x20]


def test_nothing_of_gdb_follows_the_outermost_frame() -> None:
    native = (ours(0x10, "c", Trust.CONTEXT), ours(0x20, "_start"))
    gdb = (theirs(0x10, "c"), theirs(0x20, "_start"), theirs(0x30, "puts"))
    merged = merge_stack(native, gdb, {}, code=CODE, ended=True)
    assert names(merged.frames) == ["c", "_start"]
    assert "outermost" in (merged.disagreement or "")


def test_no_call_comes_from_an_entry_of_the_linkage_table() -> None:
    native = (ours(0x10, "c", Trust.CONTEXT), ours(0x20, "??", Trust.SCAN))
    gdb = (theirs(0x10, "c"), theirs(0x30, "puts@plt"), theirs(0x40, "main"))
    merged = merge_stack(native, gdb, {}, code=CODE)
    assert [frame.pc for frame in merged.frames] == [0x10, 0x20]


def test_where_the_fault_is_may_be_no_code() -> None:
    native = (ours(0x9000, "??", Trust.CONTEXT), ours(0x20, "main"))
    gdb = (theirs(0x9000), theirs(0x20, "main", file="/m.c", line=3))
    merged = merge_stack(native, gdb, {}, code=CODE)
    assert (merged.frames[0].pc, merged.frames[1].line) == (0x9000, 3)
