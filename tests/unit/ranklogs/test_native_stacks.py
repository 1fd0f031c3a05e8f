"""Native stacks in logs, in the forms of those who write them."""

from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.native_stacks import native_frame

FORMS = [
    (
        "frame #3: c10d::ProcessGroupNCCL::f(std::vector<int>&) + 0x9 (0x7f01 in /o/libt.so)",
        ("c10d::ProcessGroupNCCL::f(std::vector<int>&)", "/o/libt.so", None, None, "0x7f01"),
    ),
    (
        "frame #4: <unknown function> + 0x12 (0x7f01 in /o/libt.so)",
        ("??", "/o/libt.so", None, None, "0x7f01"),
    ),
    (
        "#5 at::native::add(at::Tensor const&) from /src/add.cpp:12",
        ("at::native::add(at::Tensor const&)", None, "/src/add.cpp", 12, None),
    ),
    ("#6 main from ??:0", ("main", None, None, None, None)),
    (
        "    #0 0x4c1f2a in fill(int*, int) /src/ops.cpp:12:3",
        ("fill(int*, int)", None, "/src/ops.cpp", 12, "0x4c1f2a"),
    ),
    (
        "    #1 0x7f29d8f  (/lib/libc.so.6+0x29d8f) (BuildId: c28)",
        ("??", "/lib/libc.so.6", None, None, "0x7f29d8f"),
    ),
    (
        "#1  0x00007f0011 in raise () from /lib/libc.so.6",
        ("raise", "/lib/libc.so.6", None, None, "0x00007f0011"),
    ),
    ("#2  main (argc=1) at a.c:12", ("main", None, "a.c", 12, None)),
    (
        "[node1:4711] [ 1] /opt/libsolver.so(_ZN4Mesh4stepEv+0x1c)[0x7f1e]",
        ("_ZN4Mesh4stepEv", "/opt/libsolver.so", None, None, "0x7f1e"),
    ),
    ("./prog() [0x4011]", ("??", "./prog", None, None, "0x4011")),
    (
        "    @     0x7f0011223344  google::Fail()",
        ("google::Fail()", None, None, None, "0x7f0011223344"),
    ),
    ("    @     0x7f00  64  absl::f()", ("absl::f()", None, None, None, "0x7f00")),
    ("PC: @                0x0 (unknown)", ("??", None, None, None, "0x0")),
    (
        '  Binary file "/usr/bin/python3.14", at _Py_DumpStack+0x31 [0x5555]',
        ("_Py_DumpStack", "/usr/bin/python3.14", None, None, "0x5555"),
    ),
    (
        '  Binary file "/lib/libc.so.6", at +0x3c050 [0x7f1e]',
        ("??", "/lib/libc.so.6", None, None, "0x7f1e"),
    ),
    ("V  [libjvm.so+0xed430c]  Get(int)+0x12c", ("Get(int)", "libjvm.so", None, None, None)),
    ("C  [libc.so.6+0x16ead8]", ("??", "libc.so.6", None, None, None)),
    ("j  Job.peek(Lx/Unsafe;J)J+2 app.jar", ("Job.peek(Lx/Unsafe;J)J", None, None, None, None)),
    ("J 23 c2 Job.step()V (12 bytes) @ 0x7f [0x7e+0x1f]", ("Job.step()V", None, None, None, None)),
    ("v  ~StubRoutines::call_stub", ("StubRoutines::call_stub", None, None, None, None)),
]


@pytest.mark.parametrize(("text", "parts"), FORMS)
def test_forms(text: str, parts: tuple[object, ...]) -> None:
    frame = native_frame(text)
    assert frame is not None
    assert (frame.function, frame.module, frame.file, frame.line, frame.address) == parts


@pytest.mark.parametrize(
    "text",
    [
        "step 3 loss 0.1",
        "# 3 of 4 done",
        '  File "/job/train.py", line 3, in f',
        "[12] x = f(3)",
        "frame #3 of the video was dropped",
        "j  = 3",
        "J 12 of 30 done",
        "C  [optional]",
        "    loss = model(batch)",
        "",
    ],
)
def test_what_is_no_frame(text: str) -> None:
    assert native_frame(text) is None


C10 = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/job/train.py", line 20, in main
[rank1]:     dist.broadcast(t, 0)
[rank1]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970
[rank1]: Last error:
[rank1]: something of the network
[rank1]: Exception raised from create at NCCLUtils.hpp:275 (most recent call first):
[rank1]: frame #0: c10::Error::Error(std::string) + 0x57 (0x7f01 in /o/libc10.so)
[rank1]: frame #1: clone + 0x43 (0x7f02 in /lib/libc.so.6)
"""
TERMINATE = """\
[rank0]: terminate called after throwing an instance of 'c10::Error'
[rank0]:   what():  CUDA error: an illegal memory access was encountered
[rank0]: CUDA kernel errors might be asynchronously reported at some other API call
[rank0]:
[rank0]: Exception raised from f at CUDAException.cpp:43 (most recent call first):
[rank0]: frame #0: c10::Error::Error(std::string) + 0x57 (0x7f01 in /o/libc10.so)
"""
OPEN_MPI = """\
[rank0]: [node1:12345] *** Process received signal ***
[rank0]: [node1:12345] Signal: Segmentation fault (11)
[rank0]: [node1:12345] Signal code: Address not mapped (1)
[rank0]: [node1:12345] Failing at address: 0x8
[rank0]: [node1:12345] [ 0] /lib/libc.so.6(+0x3c050)[0x7f1e]
[rank0]: [node1:12345] *** End of error message ***
"""
ASAN = """\
[rank0]: ==47==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602 at pc 0x4c
[rank0]: READ of size 4 at 0x602 thread T0
[rank0]:     #0 0x4c1f2a in fill(int*, int) /src/ops.cpp:12:3
"""
PANIC = """\
[rank0]: thread '<unnamed>' panicked at src/tok.rs:55:9:
[rank0]: index out of bounds: the len is 3 but the index is 7
[rank0]: stack backtrace:
[rank0]:    0: rust_begin_unwind
[rank0]:              at /rustc/07dca/library/std/src/panicking.rs:647:5
"""
CHECK = """\
[rank0]: F1121 17:00:00.123456  4711 ops.cc:88] Check failed: n == m (3 vs. 4)
[rank0]: *** Check failure stack trace: ***
[rank0]:     @     0x7f0011223344  google::LogMessage::Fail()
"""
GLOG = """\
[rank0]: *** Aborted at 1700000000 (unix time) try "date -d @1700000000" ***
[rank0]: PC: @                0x0 (unknown)
[rank0]: *** SIGSEGV (@0x8) received by PID 4711 (TID 0x7f00) from PID 8; stack trace: ***
[rank0]:     @     0x7f0011223344 main
"""
FAULTHANDLER = """\
[rank0]: Fatal Python error: Segmentation fault
[rank0]:
[rank0]: Current thread 0x00007f [python] (most recent call first):
[rank0]:   File "/job/t.py", line 3 in f
[rank0]:
[rank0]: Current thread's C stack trace (most recent call first):
[rank0]:   Binary file "/usr/bin/python3.14", at _Py_DumpStack+0x31 [0x5555]
"""
ENDS = {
    "c10": (C10, "torch.distributed.DistBackendError", "c10::Error::Error", 2),
    "terminate": (TERMINATE, "c10::Error", "c10::Error::Error", 1),
    "open mpi": (OPEN_MPI, "SIGSEGV", "??", 1),
    "asan": (ASAN, "AddressSanitizer", "fill(int*, int)", 1),
    "panic": (PANIC, "panic", "rust_begin_unwind", 1),
    "check": (CHECK, "Check failed", "google::LogMessage::Fail()", 1),
    "glog": (GLOG, "SIGSEGV", "main", 1),
    "faulthandler": (FAULTHANDLER, "Fatal Python error", "_Py_DumpStack", 1),
}


@pytest.mark.parametrize("name", sorted(ENDS))
def test_ends_with_native_stacks(name: str, tmp_path: Path) -> None:
    log, exception, function, count = ENDS[name]
    (tmp_path / "job.out").write_text(log)
    report = analyse([str(tmp_path)], RankLogOptions())
    body: Any = report.body
    assert report.failed
    assert len(body["tracebacks"]) == 1
    traceback = body["tracebacks"][0]
    assert traceback["exception"] == exception
    assert len(traceback["native_frames"]) == count
    assert traceback["native_frames"][0]["function"].startswith(function)
    assert body["first_failure"]["rank"] == (1 if name == "c10" else 0)


def test_undefined_behaviour_that_the_program_survives_is_no_failure(tmp_path: Path) -> None:
    log = "ops.cpp:12:5: runtime error: signed integer overflow\n" + "step\n" * 50
    (tmp_path / "job.out").write_text(log)
    assert not analyse([str(tmp_path)], RankLogOptions()).failed


def test_the_text_is_whole(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(C10)
    body: Any = analyse([str(tmp_path)], RankLogOptions()).body
    text = body["tracebacks"][0]["text"]
    assert text == "\n".join(line.removeprefix("[rank1]: ") for line in C10.splitlines())
