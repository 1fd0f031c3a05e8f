"""Which stacks have one signature, and which do not."""

from builders.prose import Prose
from postmortem.diagnose.stacks.signature import Signature, crash_signature
from postmortem.facts.crash import AbortMessage, CppException, Signal
from postmortem.facts.threads import Frame, Thread, Trust
from unit.present.views import LIBC, PYTHON, native, python, stacks

EXT = "/home/u/_ext.cpython-311-x86_64-linux-gnu.so"
LIBPYTHON = "/usr/lib/libpython3.11.so.1.0"
GOMP = "/usr/lib/libgomp.so.1"
SEGV = Signal(11, "SIGSEGV", 1, "SEGV_MAPERR", 0)
ABRT = Signal(6, "SIGABRT", -6, "SI_TKILL", sender_pid=1)
STEP = python("step", "/scratch/node1/train.py", 31)


def sign(*frames: Frame, signal: Signal | None = SEGV, **fields: object) -> Signature | None:
    thread = Thread(1, crashed=True, frames=frames)
    fields = {"pid": 1, "executable": PYTHON, **fields}
    return crash_signature(thread, signal, **fields)  # type: ignore[arg-type]


def test_the_summary_names_the_place_and_the_users_function() -> None:
    found = sign(native("store_at(int*)", EXT), native("ffi_call", LIBPYTHON), STEP)
    assert found is not None
    assert found.summary == "SIGSEGV in store_at (_ext) <- train.step"
    assert found.hash == "5854864970c1ce28"  # changes only together with VERSION


def test_what_differs_from_run_to_run_does_not_count() -> None:
    base = sign(native("store_at", EXT, pc=1), STEP, python("main", "/scratch/node1/train.py", 9))
    clone = native("store_at(int*) [clone .constprop.0]", "/other/_ext.abi3.so", pc=2)
    moved = python("step", "/scratch/node2/train.py", 99)
    start = (native("start_thread", LIBC), native("clone3", LIBC))
    inlined = native("operator=", EXT, inlined=True)
    guess = native("leftover", EXT, trust=Trust.SCAN)
    main = python("main", "/elsewhere/train.py", 1)
    assert sign(inlined, clone, guess, moved, main, *start) == base
    assert sign(clone, moved, main, python("outer", "/x/launch.py", 5)) == base


def test_what_tells_crashes_apart() -> None:
    different = [
        sign(native("store_at", EXT), STEP),
        sign(native("load_from", EXT), STEP),
        sign(native("store_at", "/home/u/_other.so"), STEP),
        sign(native("store_at", EXT), python("evaluate", "/x/train.py", 31)),
        sign(native("store_at", EXT), python("step", "/x/finetune.py", 31)),
        sign(native("store_at", EXT), STEP, signal=Signal(7, "SIGBUS", 2)),
        sign(native("store_at", EXT), STEP, signal=Signal(6, "SIGABRT", 0, sender_pid=7)),
        sign(native("memcpy", LIBC), native("store_at", EXT), STEP),
        sign(native("PyList_Append", LIBPYTHON), native("store_at", EXT), STEP),
        sign(native("PyDict_SetItem", LIBPYTHON), native("store_at", EXT), STEP),
        sign(native("??", EXT, module_offset=0x10), STEP),
        sign(native("??", EXT, module_offset=0x20), STEP),
        sign(native("??", None, pc=0xDEAD), STEP),
        sign(STEP, signal=None),
    ]
    assert None not in different
    assert len({found.hash for found in different if found}) == len(different)
    assert len({found.summary for found in different if found}) == len(different)


def test_functions_of_the_c_library_are_one_place(prose: Prose) -> None:
    names = ("__memmove_avx512_unaligned_erms", "__memcpy_sse2", "??")
    found = {sign(native(name, LIBC), native("store_at", EXT), STEP) for name in names}
    (summary,) = {f.summary for f in found if f}
    prose(summary)


def test_the_way_to_abort_is_said_by_the_signal() -> None:
    way = [native(name, LIBC) for name in ("__pthread_kill_implementation", "raise", "abort")]
    named, stripped = sign(*way, native("f", EXT), signal=ABRT), sign(native("f", EXT), signal=ABRT)
    assert named == stripped
    message = AbortMessage("python: malloc.c:2617: sysmalloc: 0x7f12ab failed\n")
    found = sign(*way, native("f", EXT), signal=ABRT, abort_message=message)
    assert found is not None
    assert found.summary == "SIGABRT (python: malloc.c:#: sysmalloc: # failed) in f (_ext)"
    flying = CppException(1, "c10::Error", "x", "tls")
    thrown = sign(*way, native("f", EXT), signal=ABRT, exception=flying)
    assert thrown is not None
    assert thrown.summary == "SIGABRT (c10::Error) in f (_ext)"


def test_all_threads_of_a_parallel_region_are_one_crash() -> None:
    body = native("kernel(float*) [clone ._omp_fn.0]", EXT)
    worker = sign(body, native("gomp_thread_start", GOMP), native("start_thread", LIBC))
    master = sign(body, native("GOMP_parallel", GOMP), native("kernel", EXT), STEP)
    assert worker == master


def test_a_recursion_ends_anywhere_but_only_where_the_stack_was_used_up(prose: Prose) -> None:
    cycle = [native("a", EXT), native("b", EXT)] * 300
    leaf = native("memset", LIBC)
    found = sign(leaf, *cycle, overflow=True)
    assert found == sign(*cycle[1:], overflow=True)
    assert found is not None
    prose(found.summary)
    assert sign(native("c", EXT), *cycle) != sign(*cycle)


def test_no_frames_no_signature() -> None:
    assert sign() is None
    assert crash_signature(None, SEGV, pid=1, executable=None) is None


def test_real_stacks_and_hostile_names() -> None:
    for name in ("ctypes_null", "torch_terminate", "heap", "deadlock"):
        frames = next(iter(stacks(name).values()))
        assert sign(*frames) == sign(*frames)
    hostile = sign(native("<(" * 20_000, "\udcff" * 9000), python("\n", "\x00", -1))
    assert hostile is not None
    assert len(hostile.summary) < 30_000
