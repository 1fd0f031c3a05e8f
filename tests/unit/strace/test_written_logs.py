"""Logs of an independent writer: every failure is found, with the path that the writer knows."""

from __future__ import annotations

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
