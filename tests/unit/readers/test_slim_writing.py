"""Slim cores of crafted ones: what is kept, what is said, and how writing fails."""

import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import elf
from builders.prose import Prose
from postmortem import _native
from postmortem.analyses.core import CoreOptions, analyse
from postmortem.cli.main import main
from postmortem.errors import EvidenceError
from postmortem.partial import check_place
from postmortem.readers.codecs import decoded
from postmortem.readers.packing import pack
from postmortem.readers.slim_writing import SlimOptions, write_slim, write_slim_of_stream

PAGE = elf.PAGE
STACK = 0x7FFC00000000
HEAP = 0x555500000000


def core_with_heap(pages: int = 64) -> elf.CoreBuilder:
    """Return a core of one thread whose stack points to one page of its heap."""
    stack = bytearray(4 * PAGE)
    stack[0x108:0x110] = (HEAP + 8 * PAGE + 16).to_bytes(8, "little")
    heap = b"".join(bytes([i % 255 + 1]) * PAGE for i in range(pages))
    core = elf.CoreBuilder().thread(1000, 11, sp=STACK + 0x100).process(args=b"prog")
    core.siginfo(11, 1, address=0x10).auxv({elf.AT_PHDR: 0})
    core.segment(HEAP, heap, elf.PF_R | elf.PF_W)
    return core.segment(STACK, bytes(stack), elf.PF_R | elf.PF_W)


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """A core of 64 pages of heap and four of stack."""
    path = tmp_path / "core"
    path.write_bytes(core_with_heap().build())
    return path


def test_what_the_stack_points_to_is_kept_and_the_rest_is_not(core: Path, tmp_path: Path) -> None:
    out = tmp_path / "slim"
    assert main(["core", str(core), "--slim", str(out)]) == 0
    data = out.read_bytes()
    assert bytes([9]) * PAGE in data
    assert bytes([30]) * PAGE not in data
    assert len(data) < core.stat().st_size / 4
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    raw, original = _native.read_core(str(out)), _native.read_core(str(core))
    assert raw["slim"] is not None
    assert raw["slim"]["source_bytes"] == core.stat().st_size
    assert original["slim"] is None
    for key in ("threads", "signal", "sp", "fault", "mapped_bytes", "dumped_bytes"):
        assert raw[key] == original[key]


def test_the_report_says_that_it_is_slim(core: Path, tmp_path: Path, capsys, prose: Prose) -> None:
    out = tmp_path / "slim"
    main(["core", str(core), "--slim", str(out)])
    said = capsys.readouterr()
    assert said.out == ""
    prose(*said.err.splitlines()[1:])
    report = analyse(out, CoreOptions(engine="native"))
    assert not report.inputs[0].truncated
    assert report.body["core"]["slim"]["source_bytes"] == core.stat().st_size
    main(["core", str(out), "--engine", "native", "-v"])
    prose(*(line for line in capsys.readouterr().out.splitlines() if "design" in line))


@pytest.mark.parametrize("ending", ["zst", "lz4", "gz", "xz", "bz2"])
def test_packed_by_name(core: Path, tmp_path: Path, ending: str) -> None:
    out, plain = tmp_path / f"slim.{ending}", tmp_path / "slim"
    assert main(["core", str(core), "--slim", str(out)]) == 0
    assert main(["core", str(core), "--slim", str(plain)]) == 0
    assert out.stat().st_size < plain.stat().st_size
    report = analyse(out, CoreOptions(engine="native"))
    assert report.body["core"]["slim"] is not None
    names = {"zst": "zstd", "gz": "gzip", "bz2": "bzip2"}
    with out.open("rb") as stream:
        assert b"".join(decoded(stream, names.get(ending, ending))) == plain.read_bytes()


@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=3000), packing=st.sampled_from(["zstd", "lz4", "gzip", "xz"]))
def test_packing_comes_back(data: bytes, packing: str) -> None:
    packed = io.BytesIO()
    pack(io.BytesIO(data), packed, packing)
    packed.seek(0)
    assert b"".join(decoded(packed, packing)) == data


def test_the_core_itself_is_not_overwritten(core: Path, capsys, prose: Prose) -> None:
    before = core.read_bytes()
    assert main(["core", str(core), "--slim", str(core)]) == 3
    prose(capsys.readouterr().err)
    assert core.read_bytes() == before


def test_places_that_cannot_be_written(core: Path, tmp_path: Path, capsys, prose: Prose) -> None:
    for out in (tmp_path, tmp_path / "no" / "slim", Path("/dev/null")):
        assert main(["core", str(core), "--slim", str(out)]) == 3
        error = capsys.readouterr().err
        prose(error)
        assert "Traceback" not in error
    assert Path("/dev/null").is_char_device()


def test_a_limit_of_file_sizes_leaves_nothing_behind(core: Path, tmp_path: Path) -> None:
    """ulimit -f stands for a full disk: writing fails in the middle."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "slim").write_text("what was there before")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192));"
        "from postmortem.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    for source, pipe in ((str(core), None), ("-", core)):
        run = subprocess.run(
            # -B: a compiled module that the limit cuts would stay
            [sys.executable, "-B", "-c", code, "core", source, "--slim", str(folder / "slim")],
            input=None if pipe is None else pipe.read_bytes(),
            capture_output=True,
            check=False,
        )
        assert run.returncode == 3
        assert b"slim: cannot be written" in run.stderr
        assert [path.name for path in folder.iterdir()] == ["slim"]
        assert (folder / "slim").read_text() == "what was there before"


@pytest.mark.parametrize("text", [b"", b"\x7fELF", b"no core at all", b"\x28\xb5\x2f\xfd packed"])
def test_a_stream_that_is_no_core(tmp_path: Path, text: bytes) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "postmortem", "core", "-", "--slim", str(tmp_path / "slim")],
        input=text,
        capture_output=True,
        check=False,
    )
    assert run.returncode == 3
    assert run.stderr.startswith(b"postmortem: standard input: ")
    assert list(tmp_path.iterdir()) == []


def test_a_report_cannot_come_from_a_pipe(capsys) -> None:
    assert main(["core", "-"]) == 3
    assert "--slim" in capsys.readouterr().err


def test_where_the_heap_finds_no_room_the_stack_is_kept(
    core: Path, tmp_path: Path, prose: Prose
) -> None:
    spool, unused = tmp_path / "spool", tmp_path / "unused"
    with core.open("rb") as source, spool.open("w+b") as to, unused.open("w+b") as fd:
        row = _native.slim_stream(source.fileno(), b"", fd.fileno(), to.fileno(), 3 * PAGE)
    assert row["outcome"] is None
    assert row["stream_bytes"] == core.stat().st_size
    raw = _native.read_core(str(spool))
    assert raw["slim"] is not None
    assert raw["slim"]["lost_bytes"] == 61 * PAGE
    assert raw["slim"]["kept_bytes"] == (3 + 4) * PAGE
    with unused.open("w+b") as fd:
        _native.write_slim(str(spool), fd.fileno())
    report = analyse(unused, CoreOptions(engine="native"))
    prose(*(problem.what for problem in report.problems))


def write_both_ways(core: Path, spool: Path, of_file: Path, of_stream: Path) -> None:
    """Write the slim core of a file, and that of the same bytes as they come through a pipe."""
    with of_file.open("w+b") as fd:
        _native.write_slim(str(core), fd.fileno())
    with core.open("rb") as source, spool.open("w+b") as to, of_stream.open("w+b") as fd:
        _native.slim_stream(source.fileno(), b"", fd.fileno(), to.fileno(), 1 << 30)
        _native.write_slim(str(spool), fd.fileno())


def test_a_seam_of_the_stream_is_none_of_the_slim_core(tmp_path: Path) -> None:
    """What a stream keeps for certain begins 64 KiB below the stack pointer, within a mapping."""
    sp = STACK + 40 * PAGE + 0x100
    memory = bytearray(b"".join(bytes([i + 1]) * PAGE for i in range(64)))
    for slot, page in enumerate((22, 24)):  # on both sides of it, with a page between
        at = sp - STACK + 8 * slot
        memory[at : at + 8] = (STACK + page * PAGE + 16).to_bytes(8, "little")
    core, spool, one, two = (tmp_path / name for name in ("core", "spool", "one", "two"))
    builder = elf.CoreBuilder().thread(1000, 11, sp=sp).process()
    core.write_bytes(builder.segment(STACK, bytes(memory), elf.PF_R | elf.PF_W).build())
    write_both_ways(core, spool, one, two)
    assert bytes([24]) * PAGE in one.read_bytes()
    assert one.read_bytes() == two.read_bytes()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 3), st.sampled_from([4, 5, 6])), max_size=12
    ),
    st.floats(0.3, 1.0),
)
def test_any_layout_from_a_file_and_from_a_pipe(
    layout: list[tuple[int, int, int]], share: float
) -> None:
    """Segments, gaps and a cut anywhere: both ways give the same file, with the same segments."""
    builder = elf.CoreBuilder().thread(1, 11, sp=HEAP + 64).process()
    at = HEAP
    for number, (pages, gap, flags) in enumerate(layout):
        data = bytes([number + 1]) * (pages * PAGE - (17 if number == 3 else 0))
        builder.segment(at, data, flags, memsz=(pages + gap) * PAGE)
        at += (pages + gap + number % 2) * PAGE
    whole = builder.build()
    head = 64 + 56 * (1 + len(layout)) + len(builder.notes())
    data = whole[: max(head, int(len(whole) * share))]
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path("/tmp")
    names = [base / f"pm-slim-{os.getpid()}-{name}" for name in ("core", "spool", "one", "two")]
    try:
        core, spool, one, two = names
        core.write_bytes(data)
        write_both_ways(core, spool, one, two)
        assert one.read_bytes() == two.read_bytes()
        slim, original = _native.read_core(str(one)), _native.read_core(str(core))
        for key in ("mapped_bytes", "dumped_bytes", "memory_by_kind", "sp", "threads"):
            assert slim[key] == original[key]
    finally:
        for path in names:
            path.unlink(missing_ok=True)


def test_a_stream_is_kept_where_it_cannot_be_packed(
    core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    """A handler of core_pattern has one chance, and perhaps not our dependencies."""
    for name in ("backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    out = tmp_path / "small.zst"
    with core.open("rb") as stream:
        outcome = write_slim_of_stream(stream.fileno(), out, SlimOptions())
    kept = tmp_path / "small"
    assert not out.exists()
    assert _native.read_core(str(kept))["slim"] is not None
    assert any("kept unpacked" in problem.what for problem in outcome.problems)
    with pytest.raises(EvidenceError) as refused:
        write_slim(kept, out, SlimOptions())
    prose(refused.value)


def test_a_stream_without_a_name_is_refused() -> None:
    """/dev/stdout is one where the output is caught: no file of the name that it shows is made."""
    descriptor = os.memfd_create("output")
    try:
        with pytest.raises(EvidenceError) as refused:
            check_place(Path(f"/proc/self/fd/{descriptor}"))
        assert f"/fd/{descriptor}:" in str(refused.value)
    finally:
        os.close(descriptor)
