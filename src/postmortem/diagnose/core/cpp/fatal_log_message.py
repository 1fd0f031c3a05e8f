"""Code logged a fatal error, or panicked, and stopped the process.

What it means
    A check failed (CHECK, LOG(FATAL), RAY_CHECK) or Rust code panicked (tokenizers,
    safetensors, polars are written in Rust). The library printed why, then aborted.
How to be sure
    The logger's or the panic's functions stand under abort(). The next function outwards made
    the check. The message itself is on standard error. Where nothing has a name, a panic's words
    that Rust left on the stack tell.
What to do
    Read the last lines on standard error: they have file, line and the reason.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python, cite_words
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.special_exceptions import watchdog_frames
from postmortem.diagnose.core.stacks import is_nameless, is_terminated
from postmortem.diagnose.names import bare, clip, short
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.crash import Panic
from postmortem.facts.threads import Frame, Thread
from postmortem.patterns import Pattern

# glog, absl (gRPC, Ray, TensorFlow), c10's own logger, GLib, OpenSSL.
_LOGGER = Pattern(
    r"^(google::(LogMessage|LogMessageFatal|DumpStackTraceAndExit)|absl::.*LogMessage|"
    r"tsl::internal::LogMessage|c10::MessageLogger::|gpr_(abort|assert_failed|log)|"
    r"ray::(RayLog|SpdLogMessage)|grpc_core::Crash|g_log(v|_\w+)?$|g_assertion_message\w*$|"
    r"OPENSSL_die$)"
)
# Rust's panic machinery with panic=abort.
_RUST = Pattern(
    r"^(__rustc::|rust_panic|rust_begin_unwind|__rust_start_panic|core::panicking::|std::process::abort|"
    # catch_unwind stands at the bottom of every thread, not on the way to the abort.
    r"std::panicking::(?!catch_unwind|try)|std::sys::.*abort_internal|"
    # Rust's v0 mangling, where no debugger was there to read it (_RNv…3std9panicking…).
    r"_RN\w*(14abort_internal|10rust_panic|9panic_fmt|15panic_with_hook|18panic_bounds_check))"
)
_PANICKED = Pattern(
    r"panick?ing|rust_panic|rust_begin_unwind|panic_fmt|panic_with_hook|panic_bounds"
)
# Between the panic and the code that is wrong: checks of Rust's own libraries (v[i], unwrap()).
_RUST_LIBRARY = Pattern(
    r"^<?(core|alloc|std)::|^<.* as (core|alloc|std)::|^__rustc::|^_R(N|I)\w*(3std|4core|5alloc)|"
    r"^_?[$]LT[$]\S*(core|alloc|std)[.][.]"  # the legacy mangling, read as C++
)


@rule("https://abseil.io/docs/cpp/guides/logging", "https://doc.rust-lang.org/std/macro.panic.html")
def fatal_log_message(
    kind: FaultKind, crashed: Thread | None, panic_text: Panic | None
) -> Findings:
    if crashed is None or kind not in (FaultKind.ABORT, FaultKind.BREAKPOINT):
        return
    if watchdog_frames(crashed) is not None or is_terminated(crashed):
        return
    names = [bare(frame.function) for frame in crashed.frames[:24]]
    log = [i for i, name in enumerate(names) if _LOGGER.match(name)]
    panic = [i for i, name in enumerate(names) if _RUST.match(name)]
    found = log or panic
    said = panic_text if panic_text is not None and panic_text.language == "Rust" else None
    if not found and (said is None or not is_nameless(crashed)):
        return
    outer = found[-1] + 1 if found else len(crashed.frames)
    while panic and outer < len(crashed.frames) and _is_rust_library(crashed.frames[outer]):
        outer += 1
    evidence = [cite_frame(crashed, found[-1])] if found else []
    if said is not None and not found:
        evidence = [cite_words(crashed, said)]
    by = ""
    if outer < len(crashed.frames) and owner(crashed.frames[outer]) is not Owner.LIBFFI:
        frame = crashed.frames[outer]
        evidence.append(cite_frame(crashed, outer))
        by = short(frame.function) if frame.function != "??" else file_name(frame.module)
    what = "a fatal error was logged" if log else "Rust code panicked"
    if panic and not log and not any(_PANICKED.search(names[i]) for i in panic):
        is_oom = any("rust_oom" in name for name in names)
        what = "Rust code got no memory" if is_oom else "Rust code called std::process::abort"
    title = f"{what}{' in ' + by if by else ''} and stopped the process"
    cause = "a check in native code failed; the library printed the reason and aborted"
    if not log and said is not None:
        place = f" in {by}" if by else ""
        title = f"{what}{place}: {said.head}"
        cause = f"{clip(said.text, 300)}: the panic was not caught, or may not be, so Rust printed "
        cause += "it and ended the process"
    yield Finding(
        title=title,
        cause=cause,
        confidence=Confidence.LIKELY,
        next_steps=(
            "read the last lines that the process wrote to standard error: they give file, line "
            "and reason",
            "RUST_BACKTRACE=1 for the whole stack of a panic"
            if not log
            else "look up that message in the library's issues, with its version",
        ),
        evidence=(*evidence, *cite_python(crashed)),
        explains=("compiler_trap",),  # GLib's way to end the program
    )


def _is_rust_library(frame: Frame) -> bool:
    return _RUST_LIBRARY.search(frame.function) is not None
