"""What hostile evidence costs: memory under a limit, and time that grows as the evidence does."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from builders import hostile, hostile_rooms
from builders.commands import ENVIRONMENT, run_here

_LIMIT = 2_000_000_000
_MEGABYTE = 1000  # of ru_maxrss, which counts in KiB


# A process of its own starts the command: what a child counts as its peak begins with the memory of
# the process that forked it, and a test worker may have grown large.
_LAUNCHER = """
import json, os, resource, subprocess, sys
limit = int(sys.argv[1])
process = subprocess.Popen(
    sys.argv[2:],
    stdout=subprocess.DEVNULL,
    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
)
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss]))
"""


def peak(words: list[str]) -> tuple[int, int, str]:
    """Return the exit code, peak memory in MB and standard error of a command under a limit."""
    command = [sys.executable, "-m", "postmortem", *words]
    done = subprocess.run(
        [sys.executable, "-S", "-c", _LAUNCHER, str(_LIMIT), *command],
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    )
    code, memory = json.loads(done.stdout)
    return code, memory // _MEGABYTE, done.stderr.decode()


@pytest.mark.parametrize(
    ("make", "size", "code", "most"),
    [
        (hostile.large_rank, 100_000_000, 0, 100),
        (hostile.large_rank, 9_999_999, 0, 100),
        (hostile.dated, 50, 0, 100),
        (hostile.waiting_ranks, 10_000_000, 1, 100),
        (hostile.nul_hole, 1 << 30, 1, 100),
        (hostile.nested_names, 30, 3, 100),
        (hostile.nested_keys, 30, 3, 100),
        (hostile.copied_lists, 5000, 3, 900),
        (hostile.deep_pickle, 512_000, 0, 400),
        (hostile.chained_openat, 40_000, 1, 600),
        (hostile.many_forks, 20_000, 0, 400),
        (hostile.many_mappings, 10_000, 0, 600),
        (hostile.high_numbers, 1000, 0, 100),
        (hostile.unfinished_reads, 60_000, 0, 500),
        (hostile.libc_often, 10_000, 1, 300),
        (hostile_rooms.ring_of_far_times, 1000, 0, 100),
        (hostile_rooms.snapshot_of_copied_frames, 40, 0, 100),
        (hostile_rooms.snapshot_of_large_numbers, 40_000, 1, 100),
        (hostile_rooms.snapshot_of_shared_segments, 4000, 3, 100),
        (hostile_rooms.snapshot_of_shared_traces, 4000, 3, 100),
        (hostile_rooms.notebook_nested, 500_000, 0, 200),
        (hostile_rooms.report_nested, 500_000, 3, 200),
        (hostile_rooms.errors_nested, 500_000, 0, 200),
        (hostile_rooms.archive_within_archive, 9, 3, 200),
        (hostile_rooms.trace_of_short_lines, 1_000_000, 3, 100),
    ],
)
def test_memory_is_bounded(
    make: hostile.Maker, size: int, code: int, most: int, tmp_path: Path
) -> None:
    ended, memory, said = peak(make(tmp_path, size))
    assert (ended, "bug" in said) == (code, False), said
    assert memory < most


def _cost(make: hostile.Maker, size: int, tries: int = 1) -> float:
    """Return CPU seconds of a command in this process, the best of some tries."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        words = make(Path(folder), size)
        for _ in range(tries):
            began = time.process_time()
            done = run_here(*words)
            best = min(best, time.process_time() - began)
            nothing = make in (hostile.packed_copies_strace, hostile_rooms.trace_of_frames)
            assert done.returncode in ((3,) if nothing else (0, 1)), done.stderr
    return best


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (hostile.one_traceback_often, 500),
        (hostile.one_left_open, 500),
        (hostile.chained_tracebacks, 1000),
        (hostile.alike_in_a_chain, 500),
        (hostile.many_ranks, 2000),
        (hostile.kills, 1000),
        (hostile.many_forks, 2000),
        (hostile.begun_forks, 2500),
        (hostile.deep_pickle_of_numbers, 10_000),
        (hostile.packed_line_ends_zstd, 4_000_000),
        (hostile.packed_line_ends_zstd_strace, 4_000_000),
        (hostile.packed_copies, 1_000_000),
        (hostile.packed_copies_strace, 2_000_000),
        (hostile_rooms.ring_of_one_look_each, 1000),
        (hostile_rooms.ring_of_limits, 2000),
        (hostile_rooms.ring_that_grows, 5000),
        (hostile_rooms.notebook_of_tracebacks, 1000),
        (hostile_rooms.trace_of_frames, 1500),
    ],
)
def test_time_grows_as_the_evidence_does(make: hostile.Maker, size: int) -> None:
    """Eight times as much takes eight times as long, not 64 times: a machine may be slow."""
    _cost(make, 10)  # imports
    for _ in range(3):  # another program may have the caches for itself meanwhile
        small, large = _cost(make, size, 2), _cost(make, 8 * size)
        if large < 24 * small:
            return
    pytest.fail(f"{size} took {small:.2f} s, and {8 * size} {large:.2f} s")


def test_a_date_is_no_rank(tmp_path: Path) -> None:
    done = run_here(*hostile.dated(tmp_path, 50), "--json")
    assert '"rank": 2025' not in done.stdout


def test_all_of_many_ranks_are_known(tmp_path: Path) -> None:
    done = run_here(*hostile.real_ranks(tmp_path, 12_000), "-v", "--width", "200")
    assert "rank 5 failed first: ValueError: bad batch" in done.stdout
    assert "11999 of 12000: 0, 1, 2, 3, 4, 6" in done.stdout
