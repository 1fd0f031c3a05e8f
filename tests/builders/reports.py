# ruff: noqa: E501  (sentences as they stand in a report)
"""Reports made by hand, for renderers: no reader, no rule, no section has a part in them."""

from postmortem.facts.source import Problem, Source
from postmortem.report.blocks import (
    Backtrace,
    BacktraceLine,
    Excerpt,
    KeyValues,
    Note,
    Prose,
    Table,
    Tone,
)
from postmortem.report.model import Confidence, Diagnosis, Evidence, Report, Role, Skipped

WATCHDOG = Diagnosis(
    id="nccl_watchdog",
    title="NCCL: unhandled system error, seq 4711, NCCL 2.27.5",
    role=Role.ROOT,
    confidence=Confidence.CERTAIN,
    cause=(
        'thread "pt_nccl_watchdg" caught an asynchronous error from NCCL and rethrew it so that the'
        " job ends instead of computing on bad data. It is the messenger."
    ),
    next_steps=(
        'in rank 3\'s log, the first "NCCL WARN" before this moment names the network call that failed',
        "no such line? run again with NCCL_DEBUG=INFO; if it says NET/IB, check the InfiniBand or OPA"
        " link of this host",
        "other ranks that only report time-outs are victims: postmortem logs <log folder>",
    ),
    evidence=(
        Evidence(
            "C++ exception",
            "c10::DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:328,"
            " unhandled system error, NCCL version 2.27.5",
        ),
        Evidence("frames 5 to 6", "c10d::ProcessGroupNCCL::WorkNCCL::handleNCCLGuard"),
    ),
    references=("https://github.com/pytorch/pytorch/issues/90169",),
)

SHM = Diagnosis(
    id="shm_small",
    title="/dev/shm is 64 MiB: too small for DataLoader workers",
    role=Role.CONTRIBUTING,
    confidence=Confidence.POSSIBLE,
    cause="8 workers share tensors through it; docker run gives 64 MiB unless --shm-size says more.",
    next_steps=("docker run --shm-size=16g …", "or DataLoader(num_workers=0) to make sure"),
    evidence=(Evidence("mapping /dev/shm/torch_29520_77_1", "41.9 MB"),),
)

CRASHED = Backtrace(
    title='crashed thread 3097702 "pt_nccl_watchdg"',
    subtitle="torch 2.13 · 11 frames",
    lines=(
        BacktraceLine("raise", 0, "libc.so.6", note="asks the kernel to kill this process"),
        BacktraceLine("abort", 1, "libc.so.6"),
        BacktraceLine(
            "__gnu_cxx::__verbose_terminate_handler",
            2,
            "libstdc++.so.6",
            note="an exception reached the top of a thread",
        ),
        BacktraceLine("__cxxabiv1::__terminate", 3, "libstdc++.so.6", tone=Tone.QUIET),
        BacktraceLine("std::terminate", 4, "libstdc++.so.6", tone=Tone.QUIET),
        BacktraceLine(
            "c10d::ProcessGroupNCCL::WorkNCCL::handleNCCLGuard",
            5,
            "libtorch_cuda",
            note="rethrows what NCCL reported",
            marker="the message",
            details=(
                ("asyncErrorHandling", "c10d::ErrorHandlingMode::SkipCleanUp"),
                ("this", "0x7f1e2c0013a0"),
            ),
        ),
        BacktraceLine(
            "c10d::ProcessGroupNCCL::Watchdog::runLoop",
            6,
            "libtorch_cuda",
            note="the watchdog's loop",
        ),
        BacktraceLine(
            "std::_Function_handler<void (c10::intrusive_ptr<c10d::Work, c10::detail::"
            "intrusive_target_default_null_type<c10d::Work> > const&), c10d::Reducer::finalize>::_M_invoke",
            7,
            "libtorch_cpu",
        ),
        BacktraceLine("3 frames of thread start-up"),
    ),
)

MIXED = Backtrace(
    title="main thread 3097667",
    subtitle="holds the GIL",
    lines=(
        BacktraceLine(
            "at::native::add_stub", 0, "libtorch_cpu", "BinaryOps.cpp:1100", "a tensor kernel"
        ),
        BacktraceLine("train_step", 1, location="train.py:31", note="your code", tone=Tone.STRONG),
        BacktraceLine(
            "??", 2, "libmyops.so", note="no symbols: another build is here", tone=Tone.WARNING
        ),
    ),
)


def full_report() -> Report:
    """Return a report with every kind of block and every part filled."""
    return Report(
        kind="core",
        inputs=(Source("core-python-3097667-6.zst", 1_912_602_624, "zstd", truncated=True),),
        verdict=(
            "SIGABRT in rank 3 of 8: PyTorch's NCCL watchdog stopped the process on purpose; the fault"
            " itself is elsewhere"
        ),
        failed=True,
        diagnoses=(WATCHDOG, SHM),
        blocks=(
            CRASHED,
            Table(
                ("threads", "doing", "where", ""),
                (
                    ("main", "backward pass", "train.py:31 train_step", "holds the GIL"),
                    ("pin_memory_0 … 7", "Event.wait", "threading.py:327, data.py:12", "idle"),
                    ("15 OpenMP workers", "gomp_team_barrier_wait_end", "libgomp.so.1", "idle"),
                ),
                title="40 other threads in 5 groups",
            ),
            MIXED,
            Excerpt(
                "what glibc printed",
                ((None, "terminate called after throwing an instance of 'c10::DistBackendError'"),),
            ),
            Excerpt(
                "rank3.log", ((1_041, "NCCL WARN Call to ibv_post_send failed"), (1_042, "\tbye"))
            ),
            Prose(
                "The core was cut: 1.2 GiB of 3.1 GiB are there. Stacks are whole.",
                "how much is there",
            ),
            Note("the core was written by gcore: the process may still run", Tone.WARNING),
            Table(
                ("kind", "bytes", "mappings"),
                (("heap", "4,939,212,390", "12"), ("stack", "304,087,040", "41")),
                right_aligned=(1, 2),
            ),
            KeyValues(
                (
                    (
                        "process",
                        "python train.py --config large.yaml   pid 3097667   CPython 3.11.7   host node17"
                        "   RANK 3   LOCAL_RANK 3   WORLD_SIZE 8",
                    ),
                    (
                        "memory",
                        "5.2 GiB in the core: 4.6 GiB heap, 310 MiB torch data, 290 MiB stacks",
                    ),
                )
            ),
        ),
        body={
            "process": {
                "pid": 3097667,
                "executable": "/usr/bin/python3.11",
                "argv": ["python", "train.py", "--config", "large.yaml"],
                "env": {"RANK": "3", "HF_TOKEN": "[masked: HF_TOKEN]"},
                "rank": 3,
                "local_rank": 3,
                "world_size": 8,
                "hostname": "node17",
                "python_version": "3.11.7",
                "env_is_current": False,
                "launcher": "torchrun",
                **dict.fromkeys(("role", "crashed_at", "ppid", "uid", "command")),
                "machine": "x86_64",
            },
            "signal": {
                "number": 6,
                "name": "SIGABRT",
                "code": "SI_TKILL",
                "address": None,
                "sender_pid": 3097667,
                "explanation": "the process aborted itself",
                **dict.fromkeys(("code_number", "sender_uid", "caught")),
            },
            "cpp_exception": {
                "type": "c10::DistBackendError",
                "what": "NCCL error in: …",
                "tid": 3097702,
                "found_by": "stack",
                "state": "uncaught",
            },
            **dict.fromkeys(("signature", "abort_message", "fatal_python_error", "panic", "fault")),
            **dict.fromkeys(("python_exception", "registers")),
            "crashed_thread": 3097702,
            "main_thread": 3097667,
            "threads": [
                {
                    "tid": 3097702,
                    "name": "pt_nccl_watchdg",
                    "python_name": None,
                    "crashed": True,
                    "holds_gil": False,
                    "group": 0,
                    "python_exception": None,
                    "skipped_frames": 0,
                    **dict.fromkeys(("role", "waits_for", "stopped", "skipped_at")),
                    "frames": [
                        {
                            "kind": "native",
                            "function": "raise",
                            "pc": "0x00007f1e2c0013a0",
                            "module": "/lib/x86_64-linux-gnu/libc.so.6",
                            **dict.fromkeys(("module_offset", "file", "line", "area")),
                            "inlined": False,
                            "tail_call": False,
                            "trust": "cfi",
                            "arguments": {},
                            "note": "asks the kernel to kill this process",
                        }
                    ],
                }
            ],
            "async_tasks": [],
            "greenlets": [],
            "groups": [
                {"id": 0, "tids": [3097702], "summary": "aborts", "role": None, "state": None}
            ],
            "modules": [
                {
                    "path": "/opt/libmyops.so",
                    "build_id": "91bc",
                    "start": "0x00007f1e2c000000",
                    "end": "0x00007f1e2c100000",
                    "status": "mismatch",
                    "disk_path": "/opt/libmyops.so",
                    "disk_build_id": "3f2a",
                }
            ],
            "memory": {"mapped_bytes": 9, "dumped_bytes": 7, "by_kind": {"heap": 7}},
            "core": {
                "path": "core-python-3097667-6.zst",
                "origin": "kernel",
                "size_bytes": 9,
                "expected_bytes": 9,
                "truncated": False,
                "slim": None,
            },
        },
        problems=(
            Problem(
                "libmyops.so",
                "the file on disk is not the one that crashed (build ID 3f2a… here, 91bc… in the core):"
                " its frames have no names",
                "give the folder of the right build with --sysroot",
            ),
        ),
        skipped=(Skipped("python_recursion", "PythonStack", "give --python with the executable"),),
        footer=("0.14 s", "native stacks", "secrets masked (4)"),
        more="--locals, -v, --json for more",
    )
