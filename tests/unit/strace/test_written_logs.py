"""Logs of an independent writer: every failure is found, with the path that the writer knows."""

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.recordings import read
from builders.strace import Format, write_log

FORMATS = st.builds(
    Format,
    pids=st.sampled_from(["bare", "bracket"]),
    times=st.sampled_from(["", "tt", "ttt"]),
    durations=st.booleans(),
    annotations=st.booleans(),
    names=st.booleans(),
    instruction=st.booleans(),
)


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 1 << 32),
    FORMATS,
    st.sampled_from([64, 300, 1 << 20]),
    st.integers(1, 2),
    st.booleans(),
)
def test_every_failure_has_its_file(
    seed: int, form: Format, block_bytes: int, threads: int, statistics: bool
) -> None:
    log = write_log(seed, form)
    text = "\n".join(log.lines) + "\n"
    got = read(
        text, errors=["ENOSPC"], block_bytes=block_bytes, threads=threads, statistics=statistics
    )
    assert got["counts"]["unparsed"] == 0, got["first_unparsed"]
    assert got["counts"]["lines"] == len(log.lines)
    found = [(m["line"], m["pid"], m["target"]["path"]) for m in got["matches"]]
    assert found == [(f.line, f.pid, f.path) for f in log.failures]
    source = "annotated" if form.annotations else "tracked"
    assert {m["target"]["source"] for m in got["matches"]} <= {source}


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 32), st.booleans())
def test_the_tracker_agrees_with_the_writer(seed: int, names: bool) -> None:
    log = write_log(seed, Format(annotations=True, names=names), steps=120)
    check = read("\n".join(log.lines) + "\n", check=True)["check"]
    assert check["wrong"] == check["unknown"] == 0, check["examples"]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 32), FORMATS, st.data())
def test_damage_is_survived(seed: int, form: Format, data: st.DataObject) -> None:
    text = bytearray("\n".join(write_log(seed, form, steps=30).lines).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=20))
    whole = bytes(text)
    got = read(whole, errors=["ENOSPC"], statistics=True, block_bytes=256)
    counts = got["counts"]
    assert counts["lines"] == whole.count(b"\n") + (not whole.endswith(b"\n") and bool(whole))
    known = ("calls", "signals", "exits", "remarks", "output", "unparsed")
    assert counts["lines"] == sum(counts[kind] for kind in known)


LEADERS = ("", "[pid    7] ", "[pid  1234] ", "7     ", "1234  ", "7 12:00:01.000001 ", "12:00:01 ")
CALLS = (
    'openat(AT_FDCWD</m>, "/m/a", O_WRONLY) = 3</m/a> <0.000012>',
    'openat(AT_FDCWD, "/m/b", O_WRONLY|O_CLOEXEC) = 4',
    'write(3</m/a>, "x"..., 9) = -1 ENOSPC (No space left on device)',
    'write(4, "x"..., 9) = -1 ENOSPC (No space left on device) <0.000031>',
    "close(3</m/a>)                     = 0 <0.000009>",
    "close(4) = 0",
    "close(9) = -1 EBADF (Bad file descriptor)",
    "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 4, 0) = 0x7f1111111000",
    "munmap(0x7f1111111000, 4096) = 0",
    "munmap(0x7f11111110, 4096)           = 0 <0.000010>",
    "brk(NULL) = 0x55973b6ba000 <0.000007>",
    "lseek(4, 0, SEEK_CUR) = 0",
    "ioctl(4</m/b>, TCGETS <unfinished ...>",
    "<... ioctl resumed>, 0x7ffe) = -1 ENOTTY (Inappropriate ioctl for device)",
    "poll([{fd=4, events=POLLIN}], 1, 0) = 0 (Timeout)",
    "program output, not a call (of course",
)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(LEADERS), st.sampled_from(CALLS)), max_size=60))
def test_what_a_line_says_does_not_depend_on_the_one_before(rows: list[tuple[str, str]]) -> None:
    """In blocks of a line each, none is read by the form of another."""
    log = "".join(f"{leader}{call}\n" for leader, call in rows)
    whole, alone = (read(log, errors=["ENOSPC"], block_bytes=size) for size in (1 << 20, 16))
    # Whose a line without a pid is depends on which tasks a block has shown before.
    found = [[(match["line"], match["text"]) for match in got["matches"]] for got in (whole, alone)]
    assert found[0] == found[1]
    for count in ("lines", "calls", "unparsed", "pids", "brackets", "times"):
        assert whole["counts"][count] == alone["counts"][count]
