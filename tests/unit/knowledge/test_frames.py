"""Notes of the functions that a reader meets, and look-alikes that must get none."""

import time
import tomllib
from pathlib import Path

import pytest

import postmortem.knowledge
from builders.prose import Prose
from postmortem.knowledge.frames import NOTHING, frame_kind, python_frame_kind
from postmortem.knowledge.threads import (
    role_of_area,
    role_of_function,
    role_of_name,
    role_of_python,
)

TABLES = [
    Path(postmortem.knowledge.__file__).with_name(f"{name}.toml")
    for name in ("frames", "modules", "threads")
]


@pytest.mark.parametrize(
    ("function", "area"),
    [
        ("__GI_raise", "C library"),
        ("__pthread_kill_implementation.constprop.0", "C library"),
        ("__gnu_cxx::__verbose_terminate_handler() [clone .cold.1]", "C++ runtime"),
        ("c10d::ProcessGroupNCCL::WorkNCCL::handleNCCLGuard()", "PyTorch distributed"),
        ("c10d::ProcessGroupNCCL::workCleanupLoop()", "PyTorch distributed"),
        ("c10d::ProcessGroupNCCL::Watchdog::runLoop()", "PyTorch distributed"),
        ("___pthread_cond_wait", "C library"),
        ("__memmove_avx_unaligned_erms", "C library"),
        ("ffi_call_int", "system library"),
        ("_PyEval_EvalFrameDefault.cold", "CPython"),
        ("malloc_printerr", "C library"),
        ("main", "your program"),
        ("<signal handler called>", "unknown"),
    ],
)  # fmt: skip
def test_note(function: str, area: str, prose: Prose) -> None:
    prose(frame_kind(function, area).note or "")


@pytest.mark.parametrize(
    ("function", "area"),
    [
        ("raise", "your extension"),
        ("read", "your program"),
        ("save", "your extension"),
        ("start_thread", "your extension"),
        ("my::abort()", "your extension"),
        ("__main", "your program"),
        ("??", "C library"),
        ("", "C library"),
    ],
)
def test_a_function_of_the_user_that_is_called_alike_gets_nothing(function: str, area: str) -> None:
    assert frame_kind(function, area) == NOTHING


def test_start_up_and_waiting() -> None:
    assert frame_kind("clone3", "C library").fold == "thread start-up"
    assert frame_kind("pymain_main", "CPython").fold == "program start-up"
    assert frame_kind("main", "CPython").fold == "program start-up"
    for name in (
        "__futex_abstimed_wait_common64", "__GI___futex_abstimed_wait_cancelable64", "syscall",
        "__new_sem_wait_slow64.constprop.0", "___pthread_cond_timedwait64", "__syscall_cancel_arch",
        "__timedwait_cp", "pthread_cond_wait@@GLIBC_2.3.2",
    ):  # fmt: skip
        assert frame_kind(name, "C library").wait, name
    for name in ("__GI___poll", "epoll_wait", "__libc_recv", "__GI___clock_nanosleep"):
        kind = frame_kind(name, "C library")
        assert kind.idle, name
        assert not kind.wait, name
    assert frame_kind("gomp_team_barrier_wait_end", "OpenMP").role == "OpenMP worker"
    assert not frame_kind("gomp_team_end", "OpenMP").idle


def test_python_functions(prose: Prose) -> None:
    assert python_frame_kind("/usr/lib/python3.11/threading.py", "Thread._bootstrap").noise
    assert python_frame_kind("/usr/lib/python3.11/threading.py", "wait").idle
    prose(python_frame_kind("<frozen importlib._bootstrap>", "_load").note)
    assert python_frame_kind("/x/site-packages/torch/_tensor.py", "backward").note
    assert python_frame_kind("/home/u/mythreading.py", "wait") == NOTHING
    assert python_frame_kind("/home/u/my_tensor.py", "backward") == NOTHING
    assert python_frame_kind(None, "wait") == NOTHING


def test_roles(prose: Prose) -> None:
    assert role_of_name("pt_nccl_watchdg") == "NCCL watchdog"
    prose(role_of_name("pt_nccl_heartbt"))
    prose(role_of_name("pt_autograd_3"))
    prose(role_of_name("NCCL Progress 0"))
    prose(role_of_name("cuda-EvtHandlr"))
    assert role_of_name("python") is None
    assert role_of_name(None) is None
    assert role_of_function("gomp_thread_start", "OpenMP") == "OpenMP worker"
    prose(role_of_function("thread_main", "PyTorch"))
    assert role_of_function("thread_main", "your extension") is None
    prose(role_of_area(["C library", "CUDA driver"]))
    assert role_of_area(["C library", "your extension", "CUDA driver"]) is None
    assert role_of_python("/x/torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop")


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_tables_hold_no_name_twice_and_no_unknown_key(path: Path) -> None:
    table = tomllib.loads(path.read_text("utf-8"))
    keys = {"area", "label", "names", "note", "fold", "idle", "wait", "role"}
    for kind, rows in table.items():
        seen: set[tuple[str, object]] = set()
        for row in rows:
            assert set(row) <= keys
            for name in filter(None, row["names"].split("\n")):
                assert "*" not in name[:-1], "a star stands at the end only"
                assert (name, row.get("area")) not in seen, f"{kind}: {name}"
                seen.add((name, row.get("area")))


def test_tables_are_read_in_a_few_milliseconds() -> None:
    texts = [path.read_text("utf-8") for path in TABLES]
    best = 1.0
    for _ in range(5):
        started = time.thread_time()
        for text in texts:
            tomllib.loads(text)
        best = min(best, time.thread_time() - started)
    assert best < 0.03  # 5 ms on the machine where it was written
