"""A sanitizer found a bug and stopped the program.

What it means
    The program was built with -fsanitize=… (or runs with its library preloaded), and the
    sanitizer's runtime library found what it looks for, printed a report and aborted.
How to be sure
    The sanitizer's own functions stand between abort and the program's code; for leaks, which
    are looked for at exit, no code of the program is on the stack.
What to do
    The report on standard error names the bug, the block and who allocated and freed it:
    read that. It goes to the file of log_path if the options say so.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.core.stacks import frame_name, is_machinery
from postmortem.diagnose.names import bare
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern
from postmortem.records import record

_WITHIN = 24
_RUNTIME = Pattern(
    r"^(__(asan|lsan|tsan|msan|ubsan|hwasan|sanitizer|interception|interceptor)|___?interceptor_|"
    r"__(asan|tsan|msan|hwasan)_|___asan_|\?\?$|raise$|abort$|_*(GI_)?raise$|__pthread_kill)"
)
_OWN = Pattern(r"^_*(asan|lsan|tsan|msan|ubsan|hwasan|sanitizer|interceptor)_?")
_FAILED_ITSELF = Pattern(r"^__sanitizer::(CheckFailed|Report(Mmap|Munmap)FailureAndDie)")
"""It met a limit or a bug of its own: that is no finding about the program."""
_ACCESS = Pattern(r"^__(?:hw)?asan_report_(?:exp_)?(load|store)(?:_)?(n|\d+)")
_INTERCEPTED = Pattern(r"^_*interceptor_(\w+)$|^(?:__asan::)?asan_(free|delete|realloc)\b")
_UNDEFINED = {
    "add_overflow": "signed integer overflow in an addition",
    "sub_overflow": "signed integer overflow in a subtraction",
    "mul_overflow": "signed integer overflow in a multiplication",
    "negate_overflow": "overflow of a negation",
    "divrem_overflow": "division by zero or overflow",
    "shift_out_of_bounds": "shift by too many bits",
    "out_of_bounds": "array index out of bounds",
    "type_mismatch": "misaligned or null pointer, or an object of another type",
    "type_mismatch_v1": "misaligned or null pointer, or an object of another type",
    "pointer_overflow": "pointer arithmetic that overflows",
    "builtin_unreachable": "execution reached an unreachable point",
    "missing_return": "a function ended without returning a value",
    "vla_bound_not_positive": "array of a length that is not positive",
    "float_cast_overflow": "floating-point value out of the range of its new type",
    "load_invalid_value": "a bool or an enum holds an impossible value",
    "nonnull_arg": "null passed where it must not be",
    "nonnull_return": "null returned where it must not be",
    "function_type_mismatch": "call through a pointer to another type of function",
}


@record
class _Tool:
    name: str
    what: str
    variable: str


_TOOLS = (
    ("__lsan::", _Tool("LeakSanitizer", "memory that was never freed", "LSAN_OPTIONS")),
    ("__hwasan", _Tool("HWAddressSanitizer", "a memory error", "HWASAN_OPTIONS")),
    ("__asan", _Tool("AddressSanitizer", "a memory error", "ASAN_OPTIONS")),
    ("__tsan", _Tool("ThreadSanitizer", "a data race", "TSAN_OPTIONS")),
    ("__msan", _Tool("MemorySanitizer", "use of uninitialised memory", "MSAN_OPTIONS")),
    ("__ubsan", _Tool("UndefinedBehaviorSanitizer", "undefined behaviour", "UBSAN_OPTIONS")),
)


@rule(
    "https://github.com/google/sanitizers/wiki/AddressSanitizerFlags",
    "https://clang.llvm.org/docs/UndefinedBehaviorSanitizer.html",
)
def sanitizer_report(kind: FaultKind, crashed: Thread | None) -> Findings:
    if crashed is None or kind is not FaultKind.ABORT:
        return
    names = _between(crashed)
    tool = next((t for mark, t in _TOOLS if any(n.startswith(mark) for n in names)), None)
    if tool is None or not any("Die" in name or "abort" in name.lower() for name in names):
        return
    at = None if tool.name == "LeakSanitizer" else _place(crashed)
    where = ""
    if at is not None:
        frame = crashed.frames[at]
        line = f" ({file_name(frame.file)}:{frame.line})" if frame.file and frame.line else ""
        where = f" in {frame_name(frame, 40)}"
        where += "" if " at " in where else line
    own = next(i for i, name in enumerate(names) if name.startswith("__") and "san" in name)
    last = at - 1 if at else own
    yield Finding(
        title=f"{tool.name} found {_what(names, tool)}{where}",
        cause=f"the sanitizer's runtime library stopped the program{where}; its report with all "
        "that it knows was written to standard error",
        confidence=Confidence.CERTAIN,
        next_steps=(
            f'read the report on standard error (search for "{tool.name}" or "runtime error:"), '
            "or the file that log_path names",
            f"lost? run again with {tool.variable}=log_path=/tmp/report: the file gets the number "
            "of the process for its end",
        ),
        evidence=(
            cite_frame(crashed, max(last, 0)),
            *((cite_frame(crashed, at),) if at is not None else ()),
            *cite_python(crashed),
        ),
    )


def _between(thread: Thread) -> list[str]:
    """Return the functions of the sanitizer that stand between the signal and the program's code.

    Its others tell nothing: every thread of a program that it watches was started by one.
    """
    names = []
    seen = False
    for frame in thread.frames[:_WITHIN]:
        name = bare(frame.function)
        if _RUNTIME.match(name) is None and (seen or not is_machinery(frame)):
            break
        seen |= _OWN.match(name) is not None
        names.append(name)
    return names if not any(_FAILED_ITSELF.search(name) for name in names) else []


def _place(thread: Thread) -> int | None:
    """Return the first frame of the program itself behind the sanitizer's own."""
    seen = False
    for index, frame in enumerate(thread.frames[:_WITHIN]):
        name = bare(frame.function)
        own = _RUNTIME.match(name) is not None
        seen |= own and "san" in name
        if seen and not own:
            return index
    return None


def _what(names: list[str], tool: _Tool) -> str:
    for name in names:
        found = _ACCESS.match(name)
        if found is not None:
            verb = "read" if found[1] == "load" else "write"
            size = "" if found[2] in ("n", "_n") else f" of {found[2]} bytes"
            return f"a bad {verb}{size}"
        check = name.removeprefix("__ubsan_handle_").removesuffix("_abort")
        if check != name and check in _UNDEFINED:
            return _UNDEFINED[check]
    called = next((m for name in names if (m := _INTERCEPTED.match(name))), None)
    if called is not None and (called[1] or called[2]) != "abort" and "Address" in tool.name:
        return f"a memory error in {called[1] or called[2]}()"
    return tool.what
