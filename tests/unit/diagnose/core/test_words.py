"""Names, owners and the verdict's sentence."""

import pytest

from builders.facts import parse_bt
from builders.prose import Prose
from postmortem.diagnose.core.nccl_words import parse
from postmortem.diagnose.core.owners import Owner, module_owner, package
from postmortem.diagnose.core.special_exceptions import watchdog_frames
from postmortem.diagnose.core.stacks import is_machinery, is_malloc, site
from postmortem.diagnose.names import bare, short
from postmortem.facts.crash import CppException, Signal
from postmortem.facts.process import Process
from postmortem.facts.threads import Frame, Thread
from postmortem.present.headline.core import headline as verdict
from postmortem.readers.known_text import with_matches
from postmortem.report.model import Confidence, Diagnosis, Evidence, Role, Topic


@pytest.mark.parametrize(
    ("full", "expected"),
    [
        ("c10d::Work::wait(std::chrono::duration<long, std::ratio<1l> >)", "c10d::Work::wait"),
        ("std::terminate()", "std::terminate"),
        ("std::terminate", "std::terminate"),
        ("f() const", "f"),
        ("__assert_fail_base.cold", "__assert_fail_base"),
        ("g(int) [clone .cold.1]", "g"),
        ("Foo::operator()(int) const", "Foo::operator()"),
        ("pthread_cond_timedwait@@GLIBC_2.3.2", "pthread_cond_timedwait"),
        ("??", "??"),
        ("", ""),
        ("broken)", "broken)"),
    ],
)
def test_bare_names(full: str, expected: str) -> None:
    assert bare(full) == expected


def test_short_names_keep_what_a_reader_looks_for() -> None:
    full = "void at::native::(anonymous namespace)::copy_kernel<float, std::vector<int> >(int)"
    assert short(full) == "at::native::copy_kernel<…>"
    long = "::".join(f"namespace{i}" for i in range(9)) + "::run(int)"
    assert short(long).endswith("::run")
    assert len(short(long)) <= 48
    assert len(short("x" * 400)) <= 48


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/lib/x86_64-linux-gnu/libc.so.6", Owner.GLIBC),
        ("/lib64/libc-2.17.so", Owner.GLIBC),
        ("/lib64/ld-linux-x86-64.so.2", Owner.GLIBC),
        ("/lib/ld-musl-x86_64.so.1", Owner.GLIBC),
        ("/opt/conda/lib/libstdc++.so.6.0.30", Owner.CXX_RUNTIME),
        ("/opt/env/bin/python3.11", Owner.CPYTHON),
        ("/usr/lib/libpython3.13t.so.1.0", Owner.CPYTHON),
        ("/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", Owner.CPYTHON),
        ("/s/torch/lib/libtorch_cuda.so", Owner.PYTORCH),
        ("/s/torch/_C.cpython-312-x86_64-linux-gnu.so", Owner.PYTORCH),
        ("/s/nvidia/nccl/lib/libnccl.so.2", Owner.NCCL),
        ("/usr/lib/libcuda.so.535.104", Owner.CUDA_DRIVER),
        ("/s/nvidia/cuda_runtime/lib/libcudart.so.12", Owner.CUDA),
        ("/s/torch/lib/libgomp-a34b3233.so.1", Owner.OPENMP),
        ("/s/numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so", Owner.EXTENSION),
        ("/opt/app/libcmine.so", Owner.EXTENSION),
        ("/opt/app/m.so", Owner.EXTENSION),
        ("/s/detectron2/_C.cpython-312-x86_64-linux-gnu.so", Owner.EXTENSION),
        ("/opt/app/libmesh.so.3", Owner.EXTENSION),
    ],
)
def test_owners(path: str, expected: Owner) -> None:
    assert module_owner(path) is expected


def test_packages_are_read_from_paths() -> None:
    assert package("/v/lib/python3.11/site-packages/scipy.libs/libopenblas.so") == "scipy"
    assert package("/v/lib/python3.11/site-packages/_fast.cpython-311-x.so") == "_fast"
    assert package("/opt/app/libmesh.so") is None


def test_a_pasted_backtrace_is_parsed_with_its_wrapped_lines() -> None:
    frames = parse_bt(
        """
#0  0x01 in raise () from /lib64/libc.so.6
#1  0x02 in c10d::A::f(int (*)(int)) ()
   from/opt/libtorch.so
#2  inner (x=3, s=0x5 "a, b") at a.c:7
#3  <signal handler called>
#4  0x03 in ?? () from /lib64/libx.so
"""
    )
    assert [f.function for f in frames] == [
        "raise",
        "c10d::A::f(int (*)(int))",
        "inner",
        "<signal handler called>",
        "??",
    ]
    assert frames[1].module == "/opt/libtorch.so"
    assert (frames[2].file, frames[2].line, frames[2].inlined) == ("a.c", 7, True)
    assert frames[2].arguments == (("x", "3"), ("s", '0x5 "a, b"'))


@pytest.mark.parametrize(
    "name",
    ["raise", "__GI_raise", "__pthread_kill_implementation", "abort", "__GI_abort", "gsignal",
     "__libc_message", "__fortify_fail", "std::terminate()", "std::terminate", "__assert_fail",
     "__cxxabiv1::__terminate(void (*)())",
     "__gnu_cxx::__verbose_terminate_handler() [clone .cold.1]"],
)  # fmt: skip
def test_machinery(name: str) -> None:
    assert is_machinery(Frame(name))


@pytest.mark.parametrize("name", ["fatal", "message", "my::terminate()", "main", "??"])
def test_no_machinery(name: str) -> None:
    assert not is_machinery(Frame(name))


@pytest.mark.parametrize(
    "name", ["_int_malloc", "__libc_free", "__GI___libc_free", "free", "cfree"]
)
def test_malloc(name: str) -> None:
    assert is_malloc(Frame(name))


@pytest.mark.parametrize("name", ["free_mesh", "mesh::free(int)", "PyObject_Free", "xmalloc"])
def test_no_malloc(name: str) -> None:
    assert not is_malloc(Frame(name))


def test_the_site_of_an_abort_skips_stripped_runtimes() -> None:
    frames = (
        Frame("??", module="/lib64/libc.so.6"),
        Frame("??", module="/lib64/libstdc++.so.6"),
        Frame("??", module="/opt/app/libx.so"),
    )
    assert site(Thread(1, frames=frames)) == 2
    assert site(Thread(1)) is None


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("c10d::ProcessGroupNCCL::WorkNCCL::handleNCCLGuard()", "1.11 to 1.13"),
        ("c10d::ProcessGroupNCCL::WorkNCCL::handleException", "2.0 to 2.1"),
        ("c10d::ProcessGroupNCCL::watchdogHandler()", "2.2 to 2.7"),
        ("c10d::ProcessGroupNCCL::Watchdog::runLoop()", "2.8 or later"),
        ("c10d::ProcessGroupNCCL::ncclCommWatchdog() [clone .cold]", ""),
    ],
)
def test_generations_of_the_watchdog(name: str, version: str) -> None:
    found = watchdog_frames(Thread(1, frames=(Frame("abort"), Frame(name))))
    assert found is not None
    assert (found.version, found.is_heartbeat) == (version, False)


def test_user_code_on_nccl_is_no_watchdog() -> None:
    for name in ("c10d::ProcessGroupNCCL::allreduce(std::vector<at::Tensor>&)", "ncclAllReduce"):
        assert watchdog_frames(Thread(1, frames=(Frame(name),))) is None


def test_nccl_quotes_its_last_words(prose: Prose) -> None:
    text = "NCCL error: unhandled system error, NCCL version 2.18.1\nLast error:\nNET/IB : timeout"
    error = parse(with_matches(CppException(1, "c10::Error", text, "tls")))
    prose(error.words)
    assert "NCCL 2.18.1" in error.cause
    assert "NET/IB : timeout" in error.cause


def test_a_timeout_is_never_blamed_on_this_rank() -> None:
    text = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=BROADCAST, "
    text += "Timeout(ms)=1000) ran for 1500 milliseconds"
    error = parse(with_matches(CppException(1, "c10::Error", text, "tls")))
    assert "BROADCAST" in error.words
    assert "cannot decide" in error.meaning


def diagnosis(
    title: str, role: Role, confidence: Confidence, name: str = "x", topic: Topic = Topic.FAILURE
) -> Diagnosis:
    evidence = (Evidence("w", "x"),)
    return Diagnosis(name, title, role, confidence, "c", ("n",), evidence, topic=topic)


RANK3 = Process(1, "x86_64", rank=3, world_size=8)
ABORT = Signal(6, "SIGABRT")


def test_a_root_goes_before_a_certain_cascade() -> None:
    cascade = diagnosis("the messenger", Role.CASCADE, Confidence.CERTAIN, "a")
    root = diagnosis("the fault", Role.ROOT, Confidence.LIKELY, "z")
    assert verdict(ABORT, RANK3, [cascade, root]) == "SIGABRT in rank 3 of 8: the fault"


def test_a_cascade_goes_before_a_contribution_and_a_context() -> None:
    helps = diagnosis("two runtimes", Role.CONTRIBUTING, Confidence.POSSIBLE)
    cascade = diagnosis("the messenger", Role.CASCADE, Confidence.LIKELY)
    context = diagnosis("aborted", Role.CONTEXT, Confidence.CERTAIN)
    assert verdict(ABORT, None, [helps, context, cascade]) == "SIGABRT: the messenger"


def test_candidates_are_named_when_nothing_decides() -> None:
    one = diagnosis("this", Role.ROOT, Confidence.POSSIBLE, "a")
    two = diagnosis("that", Role.ROOT, Confidence.POSSIBLE, "b")
    assert verdict(ABORT, None, [one, two]) == "SIGABRT: undecided between this; and that"
    assert verdict(ABORT, None, [one]) == "SIGABRT: possibly this"


def test_nothing_known_is_said(prose: Prose) -> None:
    cut = diagnosis("the core is cut", Role.CONTEXT, Confidence.CERTAIN, topic=Topic.EVIDENCE)
    text = verdict(ABORT, RANK3, [cut])
    prose(text)
