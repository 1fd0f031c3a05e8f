"""What of a stack counts when it is compared, and what does not."""

import pytest

from postmortem.diagnose.stacks.frame_identity import function_name, module_name, python_name
from postmortem.diagnose.stacks.groups import groups
from postmortem.facts.threads import Frame, RaisedException, Thread, Threads
from unit.present.views import LIBC, PYTHON, native, python

LIBPYTHON = "/usr/lib/libpython3.11.so.1.0"
TRAIN = "/home/u/train.py"


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("store_at", "store_at"),
        ("store_at.constprop.0", "store_at"),
        ("store_at.part.3.cold", "store_at"),
        ("store_at._omp_fn.0", "store_at"),
        ("store_at(int*, long) [clone ._omp_fn.1]", "store_at"),
        ("void a::(anonymous namespace)::f<int, 3>(int) [clone .isra.0]", "a::f"),
        ("a::f<float>(float) const", "a::f"),
        ("__GI_raise", "raise"),
    ],
)
def test_function_names(name: str, same: str) -> None:
    assert function_name(name) == same


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/scratch/node7/libext.so.1.2.3", "libext"),
        ("/x/torch.libs/libgomp-a34b3233.so.1", "libgomp"),
        ("/x/_C.cpython-311-x86_64-linux-gnu.so (deleted)", "_C"),
        ("/memfd:jit (deleted)", "jit"),
        ("/tmp/torchinductor_u/ab/cab" + "q" * 49 + ".so", "torch.compile"),
        ("[heap]", None),
        (None, None),
    ],
)
def test_module_names(path: str | None, name: str | None) -> None:
    assert module_name(path) == name


@pytest.mark.parametrize(
    ("file", "function", "name"),
    [
        ("/scratch/job-1/node7/train.py", "step", "train.step"),
        ("train.py", "Trainer.step.<locals>.inner", "train.Trainer.step.inner"),
        ("/e/lib/python3.11/site-packages/torch/_tensor.py", "f", "torch._tensor.f"),
        ("/e/lib/python3.11/site-packages/lib/__init__.py", "f", "lib.f"),
        ("/e/lib/python3.9/threading.py", "wait", "threading.wait"),
        ("/home/u/pkg/__main__.py", "main", "pkg.__main__.main"),
        ("<frozen importlib._bootstrap>", "load", "importlib._bootstrap.load"),
        ("<string>", "<module>", "<string>.<module>"),
        ("/tmp/ipykernel_812/123.py", "f", "<cell>.f"),
        ("<ipython-input-3-1f2e>", "f", "<cell>.f"),
        (None, "f", "f"),
        ("/", "f", "/.f"),
    ],
)
def test_python_names(file: str | None, function: str, name: str) -> None:
    assert python_name(file, function) == name


def pool(*stacks: tuple[Frame, ...], **fields: object) -> list[tuple[int, ...]]:
    """Return the groups of threads with these stacks."""
    threads = tuple(
        Thread(n, frames=stack, python_name=f"pool-1_{n}", **fields)  # type: ignore[arg-type]
        for n, stack in enumerate(stacks, 1)
    )
    return sorted(group.tids for group in groups(Threads(threads, 99), PYTHON))


def stack(line: int = 7, library_line: int = 300, *middle: Frame) -> tuple[Frame, ...]:
    return (
        native("__futex_abstimed_wait_common64", LIBC),
        python("wait", "/usr/lib/python3.11/threading.py", library_line),
        *middle,
        python("work", TRAIN, line),
        native("_PyEval_EvalFrameDefault", LIBPYTHON),
        native("start_thread", LIBC),
    )


def test_lines_of_library_code_and_trampolines_do_not_split_a_group() -> None:
    trampolines = (
        native("_PyEval_Vector", LIBPYTHON),
        native("method_vectorcall", LIBPYTHON),
        native("_PyObject_VectorcallTstate", LIBPYTHON, inlined=True),
    )
    assert pool(stack(), stack(7, 320), stack(7, 300, *trampolines)) == [(1, 2, 3)]


def test_lines_of_user_code_split_a_group() -> None:
    assert pool(stack(7), stack(8)) == [(1,), (2,)]


def test_a_function_of_an_extension_between_python_frames_splits_a_group() -> None:
    extension = native("run", "/home/u/_ext.cpython-311-x86_64-linux-gnu.so")
    assert pool(stack(), stack(7, 300, extension)) == [(1,), (2,)]


def test_the_words_of_an_exception_do_not_split_a_group() -> None:
    threads = tuple(
        Thread(n, frames=stack(), python_exception=RaisedException("OSError", f"shard {n}"))
        for n in (1, 2)
    )
    assert len(groups(Threads(threads, 9), PYTHON)) == 1
