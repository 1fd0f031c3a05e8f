"""Each rule that may say "certain" against a core that only looks like it.

Of the kinds that foreign cores taught: odd layouts, sharing and namespaces, names that only sound
like something, numbers that look like null pointers, siginfo and messages that are no word on this
end. `WRONG` says of each rule when it was, or would be, certain and false. What the readers must
see of such a core is tried on real programs in tests/live/test_foreign_lookalikes.py.
"""

import ast
import tomllib
from pathlib import Path

import pytest

from builders.facts import facts_of
from postmortem import diagnose
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.rule import load, run
from postmortem.facts.crash import Signal
from postmortem.facts.process import Process
from postmortem.facts.process_role import process_role
from postmortem.facts.threads import Frame, Thread, Threads, Trust
from postmortem.knowledge.lookup import load_table
from postmortem.records import replace

_CORE = Path(diagnose.__file__).parent / "core"
_ABORT = '[signal]\nname = "SIGABRT"\ncode = "SI_TKILL"\nsender_pid = 1000\n'


def _stack(*names: str) -> str:
    rows = [
        f"#{i} {'' if n[0] == '<' else f'0x7f0000001{i:03x} in '}{n}" for i, n in enumerate(names)
    ]
    return "bt = '''\n" + "\n".join(rows) + "\n'''\n"


def _aborted(*names: str, first: str = "") -> str:
    libc = ("raise () from /lib64/libc.so.6", "abort () from /lib64/libc.so.6")
    return first + _stack(*libc, *names) + _ABORT


def _left(message: str) -> tuple[str, str]:
    first = f'abort_message = "{message}\\n"\nabort_is_of_this_end = false\n'
    stack = _stack("?? () from /lib64/libc.so.6", "?? () from /opt/app/tool")
    return f"no names on the stack, and the C library's words may be old: {message}", (
        first + stack + _ABORT
    )


def _segv(address: str, fault: str, *names: str) -> str:
    signal = f'[signal]\nname = "SIGSEGV"\ncode = "SEGV_MAPERR"\naddress = {address}\n'
    return _stack(*(names or ("get () from /opt/app/tool",))) + signal + f"[fault]\n{fault}\n"


_DEEP = "pc = { value = 0x401000, mapped = true, permissions = 'r-x' }\n" + (
    "sp = { value = 0x7ff000000000, mapped = false, above_start = 0x7ff000800000, "
    "above_kind = 'stack' }\naddress = { value = 0x7ff000000000, mapped = false, "
    "above_start = 0x7ff000800000, above_kind = 'stack' }"
)

WRONG: dict[str, list[tuple[str, str]]] = {
    "aborted_by_itself": [
        _left("Fatal error: glibc detected an invalid stdio handle"),
        (
            "another thread sent SIGABRT to one that stands in a function whose name sounds so",
            _stack("io::terminate_line () from /opt/app/tool", "main () from /opt/app/tool")
            + _ABORT
            + "[thread]\nregisters = { orig_rax = 0xffffffffffffffff }\n",
        ),
        (
            "somebody sent a signal, and its handler aborts",
            _aborted(
                "<signal handler called>",
                "futex_wait () from /lib64/libc.so.6",
                "main () from /opt/app/tool",
            ),
        ),
        (
            "a pipe sent SIGABRT at input (F_SETSIG)",
            _stack("write () from /lib64/libc.so.6", "main () from /opt/app/tool")
            + '[signal]\nname = "SIGABRT"\ncode_number = 1\n',
        ),
    ],
    "arithmetic_fault": [
        (
            "a handler passed the siginfo on with rt_tgsigqueueinfo: the stack is the handler's",
            _stack("syscall () from /lib64/libc.so.6", "main () from /opt/app/tool")
            + '[signal]\nname = "SIGFPE"\ncode = "FPE_INTDIV"\ncode_number = 1\n'
            + "[thread]\nregisters = { orig_rax = 297 }\n",
        )
    ],
    "assertion_failed": [
        _left("tool: a.c:9: check: Assertion `n == 7' failed."),
        (
            "a function of the program is called assert_fail",
            _aborted("assert_fail () from /opt/app/tool", "main () from /opt/app/tool"),
        ),
    ],
    "bad_call": [
        (
            "zeros were written over a return address: nothing was called",
            _segv(
                "0",
                "pc = { value = 0, mapped = false }\n"
                'instruction = { access = "execute", transfer = "return" }',
                "?? ()",
            ),
        )
    ],
    "buffer_overflow": [
        _left("*** stack smashing detected ***: terminated"),
        (
            "a function of the program is called chk_fail",
            _aborted("chk_fail () from /opt/app/tool", "main () from /opt/app/tool"),
        ),
    ],
    "dataloader_worker": [
        (
            "a child that a worker started: the worker's frames are below its own",
            'bt = """\npython load at /srv/data.py:9\n'
            "python _bootstrap at /usr/lib/python3.11/multiprocessing/process.py:314\n"
            "python _worker_loop at /opt/torch/utils/data/_utils/worker.py:308\n"
            "python _bootstrap at /usr/lib/python3.11/multiprocessing/process.py:314\n"
            '"""\n' + _ABORT,
        ),
        (
            "a folder whose name only ends alike",
            'bt = """\npython _worker_loop at /srv/mytorch/utils/data/_utils/worker.py:3\n"""\n'
            + _ABORT,
        ),
    ],
    "deadlock": [
        (
            "a mutex of two containers: the owner is a thread of the other one, of equal number",
            _stack("__lll_lock_wait () from /lib64/libc.so.6")
            + '[thread]\nwaits_for = { what = "a pthread mutex", address = 4096, holder = 1000, '
            + 'kind = "mutex", certain = false }\n'
            + '[signal]\nname = "SIGQUIT"\ncode = "SI_USER"\nsender_pid = 3\n',
        )
    ],
    "earlier_exception": [
        (
            "the exception was found by a word of the stack: a leftover of another call",
            _aborted("std::terminate () from /lib64/libstdc++.so.6", "f () from /opt/app/tool")
            + '[exception]\ntype = "Late"\n'
            + '[[exceptions]]\ntype = "Early"\nstate = "handled"\nfound_by = "stack"\n',
        )
    ],
    "forbidden_system_call": [
        (
            "the process had switched a dispatch of its own on: there is no seccomp filter",
            _stack("syscall () from /lib64/libc.so.6")
            + '[signal]\nname = "SIGSYS"\ncode = "SYS_USER_DISPATCH"\ncode_number = 2\n',
        ),
        (
            "a pipe sent SIGSYS at input (F_SETSIG)",
            _stack("write () from /lib64/libc.so.6")
            + '[signal]\nname = "SIGSYS"\ncode = "SI_SIGIO"\ncode_number = -5\n',
        ),
    ],
    "forced_unwind": [
        _left("FATAL: exception not rethrown"),
        (
            "the message says that a thread was being ended, not by whom",
            _aborted(
                "__libc_message () from /lib64/libc.so.6",
                "work () from /opt/app/tool",
                first='abort_message = "FATAL: exception not rethrown\\n"\n',
            ),
        ),
    ],
    "hardware_memory_error": [
        (
            "a process sent itself the siginfo of one",
            _stack("syscall () from /lib64/libc.so.6")
            + '[signal]\nname = "SIGBUS"\ncode = "BUS_MCEERR_AR"\ncode_number = 4\naddress = 0\n'
            + "[thread]\nregisters = { orig_rax = 297 }\n",
        )
    ],
    "heap_corruption": [
        _left("double free or corruption (fasttop)"),
        (
            "an assertion of the program's own allocator has the C library's words in it",
            _aborted(
                "__assert_fail () from /lib64/libc.so.6",
                "pool_free () from /opt/app/tool",
                first="abort_message = 'tool: pool.c:9: pool_free: Assertion `!\"double free or "
                "corruption (fasttop)\"` failed.'\n",
            ),
        ),
    ],
    "killed_by_signal": [
        (
            "a watchdog killed a process whose crash handler hung: it had crashed by itself",
            _stack("pause () from /lib64/libc.so.6", "main () from /opt/app/tool")
            + '[signal]\nname = "SIGABRT"\ncode = "SI_USER"\nsender_pid = 1\n'
            + "[[threads]]\ntid = 1001\nhandles = { number = 11, name = 'SIGSEGV' }\n"
            + _stack(
                "pause () from /lib64/libc.so.6",
                "on_crash () from /opt/app/tool",
                "<signal handler called>",
                "deref () from /opt/app/tool",
            ),
        )
    ],
    "mismatched_module": [
        (
            "only one of the two files has a build ID",
            _stack("f () from /opt/app/libx.so")
            + '[[modules]]\npath = "/opt/app/libx.so"\nstatus = "mismatch"\n'
            + 'build_id = "aa"\n',
        )
    ],
    "nccl_watchdog_abort": [
        (
            "the C library stopped the watchdog's thread: its heap is damaged",
            _aborted(
                "__libc_message () from /lib64/libc.so.6",
                "malloc_printerr () from /lib64/libc.so.6",
                "free () from /lib64/libc.so.6",
                "c10d::ProcessGroupNCCL::Watchdog::run() () from /opt/torch/lib/libtorch_cuda.so",
                first='abort_message = "free(): invalid pointer\\n"\n',
            ),
        )
    ],
    "null_dereference": [
        (
            "an element before a null pointer, or the error number -8: the sum of both is 0",
            _segv(
                "0",
                "operand = { value = 0, mapped = false }\n"
                'instruction = { access = "read", operand = "rdi+0x8", operand_address = 0 }',
            ),
        ),
        (
            "a thread without a thread pointer reads a thread-local variable",
            _segv(
                "0",
                "operand = { value = 0, mapped = false }\n"
                'instruction = { access = "read", operand = "fs:0x0", operand_address = 0 }',
            ),
        ),
    ],
    "pure_virtual_call": [
        (
            "a slot of a deleted function: the two sides disagree about a class",
            _aborted(
                "std::terminate () from /lib64/libstdc++.so.6",
                "__cxa_deleted_virtual () from /lib64/libstdc++.so.6",
                "f () from /opt/app/tool",
            ),
        )
    ],
    "py_fatal_error": [
        (
            "the interpreter's function is on the stack, and neither words nor caller say why",
            _aborted(
                "Py_FatalError () from /usr/lib/libpython3.11.so.1.0",
                "start_store () from /opt/app/tool",
            ),
        ),
        (
            "functions that print many messages, none of which could be read",
            _aborted(
                "_Py_FatalErrorFormat () from /usr/lib/libpython3.11.so.1.0",
                "_PyMem_DebugCheckAddress () from /usr/lib/libpython3.11.so.1.0",
                "PyMem_Free () from /usr/lib/libpython3.11.so.1.0",
                "start_store () from /opt/app/tool",
            ),
        ),
    ],
    "python_recursion": [
        (
            "thirty calls of Python, and a C function with an array larger than the stack",
            _segv("0x7ff000000000", _DEEP, *["_PyEval_EvalFrameDefault () from /usr/bin/py"] * 40),
        )
    ],
    "replaced_module": [
        (
            "memory that processes share: its name never was a file",
            "".join(
                f'[[modules]]\npath = "{path}"\ndeleted = true\nstatus = "missing"\n'
                for path in ("/SYSV00000000", "/dev/zero", "/anon_hugepage", "/[aio]")
            ),
        )
    ],
    "sanitizer_report": [
        (
            "every thread of such a program was started by the sanitizer",
            _aborted(
                "stop () from /opt/app/tool",
                "__asan::AsanThread::ThreadStart(unsigned long long) () from /lib64/libasan.so.8",
            ),
        ),
        (
            "the sanitizer failed itself: it got no memory",
            _aborted(
                "__sanitizer::Die() () from /lib64/libasan.so.8",
                "__sanitizer::ReportMmapFailureAndDie(unsigned long) () from /lib64/libasan.so.8",
                "main () from /opt/app/tool",
            ),
        ),
    ],
    "sent_by_itself": [
        (
            "two threads stand in kill(): siginfo names the process alone",
            _stack("kill () from /lib64/libc.so.6", "reap () from /opt/app/tool")
            + '[signal]\nname = "SIGQUIT"\ncode = "SI_USER"\nsender_pid = 1000\n'
            + "[[threads]]\ntid = 1001\n"
            + _stack("kill () from /lib64/libc.so.6", "watch () from /opt/app/tool"),
        )
    ],
    "snapshot": [
        (
            "gcore of a process whose crash handler waits for a debugger",
            '[core]\norigin = "gcore"\n[[threads]]\ntid = 1000\n'
            + "handles = { number = 11, name = 'SIGSEGV' }\n"
            + _stack(
                "pause () from /lib64/libc.so.6",
                "<signal handler called>",
                "deref () from /opt/app/tool",
            ),
        ),
        (
            "a library wrote the core of its own process, maybe from a crash handler",
            '[core]\norigin = "tool"\n[[threads]]\ntid = 1000\n' + _stack("main () from /opt/t"),
        ),
    ],
    "stack_overflow": [
        (
            "forty calls of one function, the last with an array larger than the stack",
            _segv("0x7ff000000000", _DEEP, "leaf () at a.c:1", *["walk () at a.c:9"] * 40),
        )
    ],
    "timer_expired": [
        (
            "the process sent itself the siginfo of a timer",
            _stack("syscall () from /lib64/libc.so.6")
            + '[signal]\nname = "SIGABRT"\ncode = "SI_TIMER"\ncode_number = -2\n'
            + "[thread]\nregisters = { orig_rax = 129 }\n",
        )
    ],
    "truncated_core": [
        (
            "bytes lie behind the last segment (section headers, a tool's trailer)",
            "[core]\nsize_bytes = 9000\nexpected_bytes = 8192\n",
        )
    ],
    "uncaught_exception": [
        (
            "the exception had been caught: its handler called std::terminate",
            _aborted(
                "std::terminate () from /lib64/libstdc++.so.6",
                "give_up () from /opt/app/tool",
                "main () from /opt/app/tool",
            )
            + '[exception]\ntype = "Late"\n',
        )
    ],
}


def rules_that_are_certain() -> set[str]:
    """Return the ids of core rules whose files give a finding `Confidence.CERTAIN`, or ask for the
    degree of what the C library said.
    """
    rows = load_table("ends.toml")["rule"]
    found = {row["id"] for row in rows if row["confidence"] == "certain"}
    for path in _CORE.glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = {getattr(node, "attr", ""), getattr(node, "id", "")}
            if isinstance(node, ast.Attribute | ast.Name) and named & {"CERTAIN", "degree_of"}:
                found.add(path.stem)
    return found


def test_every_rule_that_may_be_certain_has_a_look_alike() -> None:
    assert rules_that_are_certain() == set(WRONG)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(rule, text, id=f"{rule}: {title}")
        for rule, rows in WRONG.items()
        for title, text in rows
    ],
)
def test_a_look_alike_is_not_certain(rule: str, text: str) -> None:
    facts = facts_of(tomllib.loads(text))
    process, threads = facts[Process], facts.get(Threads)
    if isinstance(process, Process) and isinstance(threads, Threads):
        facts[Process] = replace(process, role=process_role(process, threads))
    outcome = run(load(), facts)
    assert outcome.problems == ()
    sure = [d for d in outcome.diagnoses if d.id == rule and d.confidence == "certain"]
    assert not sure, [d.title for d in sure]


def test_words_of_an_extension_are_not_read_as_words_of_the_interpreter() -> None:
    libpython = "Py_FatalError () from /usr/lib/libpython3.11.so.1.0"
    text = _aborted(libpython, "open_store () from /opt/app/tool")
    text += '[fatal_python_error]\nfunction = "open_store"\nmessage = "no object store"\n'
    found = run(load(), facts_of(tomllib.loads(text))).diagnoses
    told = next(d for d in found if d.id == "py_fatal_error")
    assert "no object store" in told.title
    assert "reference" not in told.cause


@pytest.mark.parametrize(
    ("name", "trust", "then", "degree"),
    [
        ("get", Trust.CFI, None, "certain"),
        ("get", Trust.SCAN, None, "likely"),  # what the stack holds is no call of this function
        ("??", Trust.SCAN, None, "certain"),  # code that is not here: a walk needs its tables
        ("get", Trust.CFI, Signal(6, "SIGABRT", -6), "likely"),  # of a frame that may be left over
    ],
)
def test_a_null_address_alone_is_certain_where_the_end_is_of_this_call(
    name: str, trust: Trust, then: Signal | None, degree: str
) -> None:
    facts = facts_of(tomllib.loads(_segv("0", "")))
    frames = (Frame(name, module="/opt/app/tool"), Frame("main", trust=trust), Frame("_start"))
    threads = Threads((Thread(1000, crashed=True, frames=frames),), 1000)
    signal = Signal(11, "SIGSEGV", 1, "SEGV_MAPERR", address=0, then=then)
    crash = facts[Crash]
    assert isinstance(crash, Crash)
    facts[Crash] = replace(crash, threads=threads, signal=signal)
    found = run(load(), facts).diagnoses
    assert [d.confidence for d in found if d.id == "null_dereference"] == [degree]
