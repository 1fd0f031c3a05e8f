"""Which threads stand together, and what is said of them."""

from dataclasses import replace

from builders.prose import Prose
from postmortem.diagnose.stacks.groups import groups
from postmortem.facts.threads import RaisedException, Thread, Threads, Wait
from unit.present.views import LIBC, PYTHON, native, python, real_view, stacks

GOMP = "/x/torch/lib/libgomp-a34b3233.so.1"


def summaries(threads: Threads) -> list[str]:
    """Return the summaries in order."""
    return [group.summary for group in groups(threads, PYTHON)]


def test_a_torch_trainer_of_41_threads_is_six_groups(prose: Prose) -> None:
    view = real_view("torch_terminate", 5839)
    found = groups(view.threads, PYTHON)
    assert [len(group.tids) for group in found] == [1, 1, 8, 15, 15, 1]
    assert sorted(tid for group in found for tid in group.tids) == sorted(
        thread.tid for thread in view.threads
    )
    assert [group.id for group in found] == list(range(6))
    assert found[0].crashed
    assert found[1].activity.role == "main"
    assert found[2].summary == "8 Python threads, waiting in PyThread_acquire_lock_timed"
    assert {found[3].summary, found[4].summary} == {
        "15 OpenMP workers, idle in gomp_team_barrier_wait_end",
        "15 PyTorch pthreadpool workers, idle in thread_main",
    }
    prose(found[5].summary)


def test_ids_do_not_depend_on_the_run() -> None:
    view = real_view("torch_terminate", 5839)
    assert groups(view.threads, PYTHON) == groups(view.threads, PYTHON)


def worker(tid: int, *innermost: object) -> Thread:
    """Return an OpenMP worker."""
    outer = (native("gomp_thread_start", GOMP), native("start_thread", LIBC))
    return Thread(tid, frames=(*innermost, *outer))  # type: ignore[arg-type]


def test_how_a_thread_waits_clones_offsets_and_inlining_do_not_count() -> None:
    barrier = native("gomp_team_barrier_wait_end", GOMP, module_offset=16)
    threads = Threads(
        (
            Thread(1, frames=(native("main", PYTHON),)),
            worker(2, barrier),
            worker(3, native("syscall", LIBC), barrier),
            worker(4, native("do_spin", GOMP, inlined=True), barrier),
            worker(5, native("gomp_team_barrier_wait_end.part.0", GOMP, module_offset=99)),
        ),
        1,
    )
    assert [group.tids for group in groups(threads)] == [(1,), (2, 3, 4, 5)]


def test_different_callers_are_different_groups() -> None:
    wait = native("pthread_cond_wait", LIBC)
    threads = Threads(
        (
            Thread(1, frames=(wait, native("a", "/x/liba.so"))),
            Thread(2, frames=(wait, native("b", "/x/liba.so"))),
            Thread(3, frames=(wait, native("a", "/x/libb.so"))),
        ),
        9,
    )
    assert len(groups(threads)) == 3


def test_frames_without_names_are_told_apart_by_their_place() -> None:
    def stack(*offsets: int) -> tuple[object, ...]:
        return tuple(native("??", "/usr/lib/libcuda.so.1", module_offset=o) for o in offsets)

    threads = Threads(
        (
            Thread(1, frames=stack(1, 50)),  # type: ignore[arg-type]
            Thread(2, frames=stack(2, 50)),  # type: ignore[arg-type]
            Thread(3, frames=stack(1, 60)),  # type: ignore[arg-type]
        ),
        9,
    )
    assert [group.tids for group in groups(threads)] == [(3,), (1, 2)]
    assert groups(threads)[1].summary == "2 CUDA driver threads, in libcuda.so.1, no symbols"


def test_python_frames_speak_first(prose: Prose) -> None:
    stack = (
        native("__futex_abstimed_wait_common64", LIBC),
        native("PyThread_acquire_lock_timed", "/usr/lib/libpython3.11.so.1.0"),
        python("wait", "/usr/lib/python3.11/threading.py", 327),
        python("dataloader_worker", "/home/u/data.py", 12),
        python("run", "/usr/lib/python3.11/threading.py", 982),
        python("_bootstrap_inner", "/usr/lib/python3.11/threading.py", 1045),
        python("_bootstrap", "/usr/lib/python3.11/threading.py", 1002),
        native("pythread_wrapper", "/usr/lib/libpython3.11.so.1.0"),
        native("start_thread", LIBC),
    )
    threads = Threads(
        tuple(Thread(tid, python_name=f"pin_memory_{tid}", frames=stack) for tid in range(8)), 99
    )
    (only,) = groups(threads)
    assert only.summary == (
        "8 Python threads, pin_memory_0 … pin_memory_7, waiting in dataloader_worker (data.py:12) "
        "-> wait (threading.py:327) -> PyThread_acquire_lock_timed"
    )
    prose(only.activity.waits)


def test_order_crashed_gil_main_exception_lock_running_idle(prose: Prose) -> None:
    def thread(tid: int, function: str, **fields: object) -> Thread:
        frames = (native(function, "/x/liba.so"),)
        return Thread(tid, frames=frames, **fields)  # type: ignore[arg-type]

    threads = Threads(
        (
            worker(1, native("gomp_team_barrier_wait_end", GOMP)),
            thread(2, "work"),
            thread(3, "lock", waits_for=Wait("a lock", 0x10, 2)),
            thread(4, "raise_", python_exception=RaisedException("ValueError", "bad")),
            thread(5, "main"),
            thread(6, "gil", holds_gil=True),
            thread(7, "crash", crashed=True),
        ),
        5,
    )
    assert [group.tids[0] for group in groups(threads)] == [7, 6, 5, 4, 3, 2, 1]
    prose(summaries(threads)[4])
    prose(summaries(threads)[1])


def test_the_crashed_thread_stands_alone_even_among_equals() -> None:
    frames = (native("spin", "/x/liba.so"),)
    threads = Threads(tuple(Thread(t, crashed=t == 2, frames=frames) for t in (1, 2, 3)), 9)
    assert [group.tids for group in groups(threads)] == [(2,), (1, 3)]


def test_threads_without_frames(prose: Prose) -> None:
    threads = Threads((Thread(1, stopped="its stack is not in the core"), Thread(2)), 1)
    prose(*summaries(threads))


def test_main_in_a_backward_pass_is_no_autograd_worker() -> None:
    frames = stacks("torch_terminate")[5839]
    assert any("Engine::thread_main" in frame.function for frame in frames)
    threads = Threads((Thread(5839, frames=frames), Thread(7, frames=frames)), 5839)
    main, other = groups(threads, PYTHON)
    assert main.activity.role == "main"
    assert other.activity.role is None
    assert main.activity.state == "running"
    assert main.summary.endswith(
        "at::native::cpublas::gemm -> mkl_blas_sgemm_omp_driver_v1 -> gomp_team_barrier_wait_end"
    )


def test_a_role_by_function_beats_an_inherited_name(prose: Prose) -> None:
    team = native("gomp_team_barrier_wait_end", GOMP)
    threads = Threads(
        (
            Thread(1, name="pt_main_thread", frames=(native("main", PYTHON),)),
            replace(worker(2, team), name="pt_autograd_0"),
            Thread(3, name="pt_autograd_0", frames=(native("??", "/x/libtorch_cpu.so"),)),
            Thread(4, name="pt_main_thread", frames=(native("poll", LIBC),)),
        ),
        1,
    )
    prose(*(f"{group.tids[0]}: {group.label}" for group in groups(threads)))


def test_the_users_own_call_is_named_beside_the_innermost() -> None:
    torch = "/x/site-packages/torch"
    frames = (
        native("poll", LIBC),
        python("_engine_run_backward", f"{torch}/autograd/graph.py", 768),
        python("backward", f"{torch}/autograd/__init__.py", 267),
        python("backward", f"{torch}/_tensor.py", 581),
        python("train_step", "/home/u/train.py", 31),
        python("<module>", "/home/u/train.py", 99),
    )
    (only,) = groups(Threads((Thread(1, frames=frames),), 1))
    assert only.activity.where == (
        "train_step (train.py:31) -> … -> backward (torch/autograd/__init__.py:267) -> "
        "_engine_run_backward (torch/autograd/graph.py:768) -> poll"
    )


def test_a_join_names_the_thread_once(prose: Prose) -> None:
    join = Wait("thread 1 to end", 0x10, 1, "join")
    threads = Threads((Thread(2, frames=(native("wait_for_end", PYTHON),), waits_for=join),), 1)
    prose(*summaries(threads))
