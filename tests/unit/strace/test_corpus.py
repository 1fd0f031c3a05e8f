"""Every recording: the true file, call and process, on every way of recording."""

import fnmatch
from typing import Any

import pytest

from builders.recordings import TRUTH, read, recording, unpacked

FINDS = {name: truth for name, truth in TRUTH.items() if "find" in truth and "path" in truth}
ANNOTATED = [name for name in TRUTH if any(w in name for w in ("yy", "_full", "tTy", "_deleted_y"))]
PEERS = {name: truth["peers"] for name, truth in TRUTH.items() if "peers" in truth}


def same_path(found: str | None, wanted: str) -> bool:
    """Whether a path is the true one, whose escapes are those of the recording's script."""
    if "#" in wanted:  # O_TMPFILE: without -y the folder is all that can be known
        return found in (wanted.removesuffix(" (deleted)"), wanted.partition("/#")[0])
    plain = wanted.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
    if wanted.endswith("*"):
        return fnmatch.fnmatchcase(found or "", wanted)
    return found == plain


@pytest.mark.parametrize("name", sorted(FINDS))
def test_the_true_file_is_found(name: str) -> None:
    truth = FINDS[name]
    log = recording(name, errors=[truth["find"]], infer_sigbus=True)
    paths = {match["target"]["path"] for match in log["matches"]}
    assert paths
    assert all(same_path(path, truth["path"]) for path in paths)
    assert truth["syscall"] in {match["syscall"] for match in log["matches"]}
    assert all(not match["injected"] for match in log["matches"])


@pytest.mark.parametrize("name", sorted(TRUTH))
@pytest.mark.parametrize("block_bytes", [1 << 12, 1 << 20])
def test_every_line_is_accounted_for(name: str, block_bytes: int) -> None:
    log = recording(name, block_bytes=block_bytes, errors=["ENOSPC"])
    counts = log["counts"]
    assert counts["unparsed"] == 0, log["first_unparsed"]
    known = ("calls", "signals", "exits", "remarks", "output", "unparsed")
    assert counts["lines"] == sum(counts[kind] for kind in known)


@pytest.mark.parametrize("name", sorted(ANNOTATED))
def test_the_tracker_agrees_with_every_annotation(name: str) -> None:
    """The oracle: -y annotations are hidden from the tracker wherever a descriptor is used."""
    check = recording(name, check=True)["check"]
    assert check["uses"] > 0
    assert check["wrong"] == 0, check["examples"]
    # What is unknown is older than the log: 0 to 2 (not among the examples) and copies of them.
    assert len(check["examples"]) <= 4, check["examples"]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block_bytes", [512, 1 << 14])
def test_blocks_and_threads_change_nothing(threads: int, block_bytes: int) -> None:
    name = "ml_shm_buserror.strace.zst"
    options: dict[str, Any] = {"errors": ["ENOSPC"], "statistics": True}
    whole = recording(name, threads=1, **options)
    parts = recording(name, threads=threads, block_bytes=block_bytes, **options)
    for key in ("matches", "processes", "counts"):
        assert parts[key] == whole[key]
    assert sorted(map(str, parts["failures"])) == sorted(map(str, whole["failures"]))
    assert sorted(parts["files"]) == sorted(whole["files"])


def test_statistics_count_what_grep_counts() -> None:
    name = "torchrun_tTy.strace.zst"
    text = unpacked(name).decode("utf-8", "replace")
    log = recording(name, statistics=True)
    calls = {row["name"]: row for row in log["syscalls"]}
    assert calls["openat"]["calls"] == sum(" openat(" in line for line in text.splitlines())
    enoent = sum(1 for line in text.splitlines() if " = -1 ENOENT (" in line)
    assert enoent == sum(row["count"] for row in log["failures"] if row["errno"] == "ENOENT")


@pytest.mark.parametrize("name", sorted(PEERS))
def test_peers_of_refused_connections(name: str) -> None:
    log = recording(name, errors=["ECONNREFUSED"])
    assert {m["target"]["path"] for m in log["matches"]} >= set(PEERS[name])
    assert {m["target"]["kind"] for m in log["matches"]} == {"socket"}


@pytest.mark.parametrize("name", [n for n, truth in TRUTH.items() if "killed" in truth])
def test_who_was_killed(name: str) -> None:
    ends = [p["ending"] for p in recording(name)["processes"] if p["ending"]]
    assert TRUTH[name]["killed"] in {end["signal"] for end in ends}


def test_a_call_that_a_task_died_in_whatever_the_colours() -> None:
    (killed,) = (p for p in recording("fmt_v72_color_killed.strace.zst")["processes"] if p["ppid"])
    assert (killed["blocked"]["syscall"], killed["ending"]["signal"]) == ("read", "SIGKILL")


def test_threads_and_children_of_a_clone3_that_strace_did_not_know() -> None:
    log = recording("fmt_v50_threads.strace.zst", errors=["ENOSPC"], statistics=True)
    made = {p["pid"]: p for p in log["processes"]}
    (first,) = (
        pid
        for pid, p in made.items()
        if p["argv"] == ("/data/job-001/threads", "/data/job-001/mnt")
        and not p["ppid"]
        and not p["thread_of"]
    )
    assert sum(p["thread_of"] == first for p in made.values()) == 4
    assert [p["argv"][0] for p in made.values() if p["ppid"] == first and not p["thread_of"]] == [
        "echo",
        "sh",
    ]
    assert {m["target"]["path"] for m in log["matches"]} == {"/data/job-001/mnt/threaded.bin"}
    assert "clone3" in {row["name"] for row in log["syscalls"]}


def test_a_process_that_kills_itself_is_the_sender() -> None:
    (process,) = recording("misc_kill9.strace.zst")["processes"]
    assert process["ending"]["sender_pid"] == process["pid"]


def test_blocked_at_the_end() -> None:
    processes = recording("deadlock.strace.zst")["processes"]
    assert [p["blocked"]["syscall"] for p in processes] == ["futex"] * 3


def test_injected_errors_are_marked() -> None:
    log = recording("fmt_v72_inject.strace.zst", errors=["ENOSPC"])
    assert log["matches"]
    assert all(match["injected"] for match in log["matches"])


def test_a_cut_recording_is_read_up_to_the_cut() -> None:
    data = unpacked("enospc_dup.strace.zst")
    cut = data[: data.index(b", 65536) = -1 ENOSPC")]
    log = read(cut, errors=["ENOSPC"])
    assert log["matches"] == []
    assert log["processes"][-1]["blocked"]["syscall"] == "write"
