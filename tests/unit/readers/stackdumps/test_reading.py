"""Dumps of other tools and versions than are installed here, and dumps that are damaged."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.errors import EvidenceError
from postmortem.readers.stackdumps import looks_like_stacks, read_stack_dumps

PY_SPY = """\
Process 4763: python -u train.py
Python v3.11.7 (/opt/python3.11/bin/python3.11)

Thread 4763 (idle): "MainThread"
    0x7f869b4a3f16 (libc.so.6)
    PyThread_acquire_lock_timed (libpython3.11.so.1.0)
    data_loader (train.py:85)
        Arguments:
            lock: <_thread.lock at 0x7f86> (locked:1)
    c10d::ProcessGroupGloo::runLoop(int) (ProcessGroupGloo.cpp:700)
    <module> (my (odd) dir/train.py:248)
Thread 4771 (active+gil): "Thread-1 (run)"
    run (threading.py:975)
Thread 0x7F01 (idle)
Process 4800: python -c from multiprocessing.spawn import spawn_main
Thread 4800 (idle): "MainThread"
    wait (selectors.py:415)
"""
PYSTACK = """\
Traceback for thread 4763 (python) [] (most recent call last):
    (C) File "???", line 0, in _start (/opt/bin/python3.11)
    (Python) File "/job/train.py", line 248, in <module>
        main()
      Locals:
        rank: 3
    (Python) File "/job/train.py", line 12, in main
    (C) File "./nptl/futex.c", line 57, in __futex_wait (inlined) (/usr/lib/libc.so.6)

Traceback for thread 4814 (pt_gloo_runloop) [Has the GIL,GC] (most recent call last):
    (C) File "???", line 0, in c10d::ProcessGroupGloo::runLoop(int) (/opt/libtorch_cpu.so)
"""
GDB = """\
warning: something first
Thread 2 (Thread 0x7f1234 (LWP 72) "pt_gloo"):
#0  0x00007f12 in futex_wait (private=0) at ./nptl/futex-internal.h:146
#1  std::function<void (int)>::operator() (this=0x1, arg="a) b (c") at /usr/std_function.h:590
#2  0x00007f13 in start_thread (arg=<optimized out>) from /lib/libc.so.6

Thread 1 (LWP 70 "python"):
#0  0x00007f14 in __GI___select () from /lib/libc.so.6
#1  <signal handler called>
#2  0x00007f15 in ?? ()
"""
FAULTHANDLER = """\
Timeout (0:00:05)!
Thread 0x00007f11 [worker] (most recent call first):
  File "/job/train.py", line 12 in work
  <no Python frame>
Thread 0x00007f10 (most recent call first):
  File "/job/train.py", line 40 in <module>
"""


def test_py_spy() -> None:
    first, second = read_stack_dumps(PY_SPY, "x")
    assert (first.pid, second.pid, second.main) == (4763, 4800, 0)
    assert first.command == "python -u train.py"
    assert first.main_thread is not None
    frames = first.main_thread.frames
    assert [(f.kind, f.function, f.file, f.line, f.module) for f in frames] == [
        ("native", "??", None, None, "libc.so.6"),
        ("native", "PyThread_acquire_lock_timed", None, None, "libpython3.11.so.1.0"),
        ("python", "data_loader", "train.py", 85, None),
        ("native", "c10d::ProcessGroupGloo::runLoop(int)", "ProcessGroupGloo.cpp", 700, None),
        ("python", "<module> (my", "odd) dir/train.py", 248, None),
    ]
    assert first.running == (4771,)
    assert [t.holds_gil for t in first.threads] == [False, True, False]


def test_hosts_that_pdsh_writes_before_each_line() -> None:
    """It writes what comes first, line by line."""
    both = zip(PY_SPY.splitlines(), PY_SPY.replace("47", "58").splitlines(), strict=True)
    text = "".join(f"gpu1: {one}\ngpu2: {two}\n" for one, two in both)
    assert looks_like_stacks(text)
    assert looks_like_stacks(text * 80)  # a look ends within a line
    found = [(one.host, one.pid) for one in read_stack_dumps(text, "x")]
    assert found == [("gpu1", 4763), ("gpu1", 4800), ("gpu2", 5863), ("gpu2", 4800)]
    assert not looks_like_stacks(f"{text}done\n")


def test_pystack_is_turned_round() -> None:
    (dump,) = read_stack_dumps(PYSTACK, "x")
    main, other = dump.threads
    assert dump.main == 0
    assert [f.function for f in main.frames] == ["__futex_wait", "main", "<module>", "_start"]
    assert main.frames[0].inlined
    assert (main.frames[0].file, main.frames[0].line) == ("./nptl/futex.c", 57)
    assert main.frames[3].file is None
    assert other.holds_gil
    assert other.frames[0].function == "c10d::ProcessGroupGloo::runLoop(int)"
    assert other.frames[0].module == "/opt/libtorch_cpu.so"


def test_gdb() -> None:
    (dump,) = read_stack_dumps(GDB, "x")
    assert [(t.tid, t.name) for t in dump.threads] == [(72, "pt_gloo"), (70, "python")]
    assert dump.main == 1
    frames = dump.threads[0].frames
    assert [f.function for f in frames] == [
        "futex_wait",
        "std::function<void (int)>::operator()",
        "start_thread",
    ]
    assert (frames[0].file, frames[0].line) == ("./nptl/futex-internal.h", 146)
    assert frames[2].module == "/lib/libc.so.6"
    assert [f.function for f in dump.threads[1].frames][1:] == ["<signal handler called>", "??"]


BACKTRACE = """\
#0  0x00007f14 in MPIR_Err_return_comm () from /lib/libmpich.so.12
No symbol table info available.
#1  0x00007f15 in v_AlltoAllv (this=this@entry=0x5b30, counts=<optimized out>,
    type=1275070475) at /opt/Comm/CommMpi.cpp:388
        locals = {of the frame}
#2  main () at main.cpp:26
"""


def test_frames_that_gdb_wrote_in_several_lines() -> None:
    (dump,) = read_stack_dumps(BACKTRACE, "bt.txt")
    assert [(f.function, f.line) for f in dump.threads[0].frames] == [
        ("MPIR_Err_return_comm", None),
        ("v_AlltoAllv", 388),
        ("main", 26),
    ]


def test_a_first_frame_that_gdb_broke_behind_a_comma() -> None:
    text = (
        "#0  0x00005555 in pick (table=table@entry=0x7fff, \n    at=3) at table.c:12\n"
        "#1  0x00005555 in main () at main.c:4\n"
    )
    (dump,) = read_stack_dumps(text, "bt.txt")
    assert [frame.function for frame in dump.threads[0].frames] == ["pick", "main"]


def test_of_two_backtraces_the_last_one_counts() -> None:
    (dump,) = read_stack_dumps(f"#0  first () at a.c:1\n{BACKTRACE}", "bt.txt")
    assert dump.threads[0].frames[0].function == "MPIR_Err_return_comm"


def test_a_backtrace_alone_tells_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "bt.txt").write_text(BACKTRACE)
    made = analyse([str(tmp_path / "bt.txt")], RankLogOptions())
    assert "v_AlltoAllv" in made.verdict
    assert (made.outcome, [d.id for d in made.diagnoses]) == ("unknown", ["other_text"])


def test_faulthandler() -> None:
    (dump,) = read_stack_dumps(FAULTHANDLER, "x")
    assert [(t.python_name, t.frames[0].function) for t in dump.threads] == [
        ("worker", "work"),
        (None, "<module>"),
    ]
    assert dump.main == 1


def test_a_log_with_a_dump_in_it_is_a_log() -> None:
    log = "".join(f"step {i}: loss 0.5\n" for i in range(50)) + FAULTHANDLER
    assert not looks_like_stacks(log)
    assert not looks_like_stacks("")
    assert not looks_like_stacks('{"schema": "other/1", "threads": []}')


@pytest.mark.parametrize(
    "text",
    [
        '[{"thread_id": 1, "frames": 3}]',
        '[{"thread_id": 1, "frames": [',
        '[1, {"thread_id": 1, "frames": []}]',
        '{"schema": "postmortem/1", "threads": 5}',
        '{"schema": "postmortem/1"',
    ],
)
def test_json_that_only_looks_like_it(text: str) -> None:
    with pytest.raises(EvidenceError):
        read_stack_dumps(text, "x")


def test_json_with_wrong_types() -> None:
    rows = [
        {"thread_id": "x", "frames": [1, {"name": 3, "line": True}], "pid": [], "active": 1},
        {"thread_id": 2, "frames": [], "pid": 7, "process_info": {"command_line": "python"}},
    ]
    first, second = read_stack_dumps(json.dumps(rows), "x")
    assert first.threads[0].frames[0].function == "??"
    assert second.command == "python"


@given(
    st.sampled_from([PY_SPY, PYSTACK, GDB, FAULTHANDLER]),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 40), st.text(max_size=12)), max_size=4),
)
@settings(max_examples=300, deadline=None)
def test_damage_is_never_fatal(text: str, cuts: list[tuple[int, int, str]]) -> None:
    for at, length, new in cuts:
        text = text[:at] + new + text[at + length :]
    for dump in read_stack_dumps(text, "x"):
        assert dump.threads
        assert dump.main is None or 0 <= dump.main < len(dump.threads)


def test_py_spy_says_whose_child_a_process_is() -> None:
    text = """\
Process 17811: /opt/bin/python /opt/bin/torchrun train.py
Python v3.11.7 (/opt/bin/python3.11)

Thread 17811 (idle): "MainThread"
    wait (selectors.py:415)

--------------------------------------------------------------------------------
Process 17813: /opt/bin/python -u train.py
Python v3.11.7 (/opt/bin/python3.11)
Parent Process 17811: /opt/bin/python /opt/bin/torchrun train.py

Thread 17813 (idle): "MainThread"
    step (train.py:5)
"""
    found = [(one.pid, one.parent) for one in read_stack_dumps(text, "all.txt")]
    assert found == [(17811, None), (17813, 17811)]
    about = {"pid": 17813, "parent": {"pid": 17811, "parent": None, "command_line": "torchrun"}}
    row = {"pid": 17813, "thread_id": 1, "frames": [], "process_info": about}
    (one,) = read_stack_dumps(json.dumps([row]), "all.json")
    assert (one.pid, one.parent) == (17813, 17811)


DEBUG_SERVER = f"""\
PARTIAL DATA: 2/3 workers responded
  Rank 1: connection refused

=== Rank 0: http://node7:45999/handler/dump_traceback? ===
{FAULTHANDLER}
=== Rank 1: http://node8:45999/handler/dump_traceback? ===
Error: 503
=== Rank 2: http://node8:46001/handler/dump_traceback? ===
{FAULTHANDLER}"""


def test_stacks_of_all_ranks_that_pytorchs_debug_server_wrote() -> None:
    assert looks_like_stacks(DEBUG_SERVER)
    found = read_stack_dumps(DEBUG_SERVER, "stacks_20261122_160000.txt")
    assert [(one.rank, one.host, one.tool) for one in found] == [
        (0, "node7", "faulthandler"),
        (2, "node8", "faulthandler"),
    ]
    assert [one.threads for one in found] == [read_stack_dumps(FAULTHANDLER, "x")[0].threads] * 2


def test_the_heading_alone_is_no_dump_of_stacks() -> None:
    """A log that says so, and the same server's other files."""
    assert not looks_like_stacks("=== Rank 0: http://node7:45999/handler/x? ===\nstep 1 loss 2.3\n")
    assert not looks_like_stacks("step 1\n=== Rank 0 ===\nstep 2\n")


@pytest.mark.parametrize(
    "text",
    [
        "Process {}: python train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\n"
        'Thread {} (active): "MainThread"\n    step (train.py:{})\n',
        "Process 7: python train.py\nPython v3.11.2 (/usr/bin/python3.11)\n"
        'Parent Process {}: python\n\nThread 7 (idle): "MainThread"\n    step (train.py:{})\n',
        "Traceback for thread {} (python) [] (most recent call last):\n"
        '    (Python) File "/job/train.py", line {}, in step\n',
        'Thread 0x00007f0000000000 (most recent call first):\n  File "train.py", line {} in step\n',
        "Thread {} (LWP {}):\n#{}  0x00007f in wait () at /src/wait.c:{}\n",
    ],
)
def test_numbers_of_any_length_are_read_or_left(text: str, tmp_path: Path) -> None:
    """Python makes no integer of more than 4,300 digits."""
    (tmp_path / "stack.rank0.txt").write_text(text.replace("{}", "9" * 5000))
    assert analyse([str(tmp_path / "stack.rank0.txt")], RankLogOptions()).verdict
