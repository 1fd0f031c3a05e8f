"""What the crashed thread's stack shows: machinery, the place that matters, and who called it.

Names differ by C library and by reader: glibc 2.34 moved `raise` into
`__pthread_kill_implementation`, Debian keeps `__GI_` aliases, musl has `__restore_sigs`. Stripped
libraries have no names at all; then the module decides.
"""

from collections.abc import Iterable

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.jit_frames import compiled_by
from postmortem.diagnose.core.owners import Owner, file_name, module_name, owner
from postmortem.diagnose.names import bare, clip, short
from postmortem.facts.crash import CppException
from postmortem.facts.threads import Frame, Thread, Threads, Trust, is_own, of_c_library, own_frames
from postmortem.patterns import Pattern

_PREFIX = Pattern(r"^(__GI_+|__libc_|__interceptor_|___?)(?=[a-z])")
_RAISE = {
    "raise", "gsignal", "kill", "tgkill", "pthread_kill", "pthread_kill_implementation",
    "pthread_kill_internal", "nptl_tgkill", "restore_sigs", "abort", "malloc_printerr",
}  # fmt: skip
_LIBC_FATAL = {
    "fortify_fail", "fortify_fail_abort", "stack_chk_fail", "stack_chk_fail_local", "chk_fail",
    "assert_fail", "assert_fail_base", "assert_perror_fail",
}  # fmt: skip
_TERMINATE = Pattern(
    r"^(__gnu_cxx::__verbose_terminate_handler|__cxxabiv1::__\w+|std::(__)?terminate|"
    r"std::unexpected|std::rethrow_exception|std::__exception_ptr::|__cxa_\w+|"
    r"__gxx_personality_v0|_Unwind_\w+|__clang_call_terminate|__verbose_terminate_handler|"
    r"demangling_terminate_handler|std::rethrow_if_nested|std::__throw_\w+|abort_message)"
)
_GO = Pattern(
    r"^runtime\.(raise|raiseproc|dieFromSignal|crash|sig(fwdgo|trampgo|tramp|handler|panic|return)|"
    r"fatalpanic|fatalthrow|fatal|throw|gopanic|abort|panic\w*|goPanic\w*|dopanic\w*|systemstack|"
    r"mstart\w*)(\.\w+)?$"
)
# Zig's standard library, whose names are its files' and functions'.
_ZIG = Pattern(
    r"^(os\.linux\.(\w+\.)?(syscall\d|sigprocmask|tkill|tgkill)|posix\.(raise|abort|sigprocmask)|"
    r"process\.abort|debug\.(defaultPanic|panic\w*|FullPanic\(.*))$"
)
_MALLOC = Pattern(
    r"^(_int_(free|malloc|realloc|memalign|calloc)\w*|malloc_consolidate|unlink_chunk|sysmalloc|"
    r"systrim|(__GI_+|__)?(__libc_|libc_)?(malloc|free|cfree|calloc|realloc|memalign)|"
    r"tcache_(get|put|free|thread_shutdown|key_\w+)\w*|malloc_usable_size|mremap_chunk|munmap_chunk|"
    r"operator (new|delete)(\[\])?.*|arena_get\w*|arena_for_chunk|__malloc_\w+)$"
)
_HANDS_OUT = {"malloc", "free", "cfree", "calloc", "realloc", "memalign", "aligned_alloc"}
_EXIT = {
    "exit", "run_exit_handlers", "cxa_finalize", "_dl_fini", "_dl_call_fini", "Py_Exit",
    "Py_FinalizeEx", "Py_Finalize", "finalize_modules", "atexit_callfuncs", "pymain_free",
    "_Py_Finalize",
}  # fmt: skip


def plain(function: str) -> str:
    """Return a C function's name without the aliases' prefixes of the C library."""
    name = bare(function)
    previous = ""
    while previous != name:
        previous, name = name, _PREFIX.sub("", name)
    return name


def is_machinery(frame: Frame) -> bool:
    """Return whether a frame only serves to end the process: raise, abort, terminate."""
    name = plain(frame.function)
    if name in _RAISE or of_libc(frame, _LIBC_FATAL) or frame.is_signal:
        return True
    if frame.function.startswith(("__libc_message", "__libc_fatal")):
        return True
    if _GO.match(frame.function) is not None or _ZIG.match(frame.function) is not None:
        return True
    return _TERMINATE.match(bare(frame.function)) is not None


def of_libc(frame: Frame, names: frozenset[str] | set[str]) -> bool:
    """Return whether a frame is one of these functions of the C library, named without prefixes.

    Programs have functions of their own called assert_fail or chk_fail.
    """
    reserved = bare(frame.function).startswith("__") or owner(frame) is Owner.GLIBC
    reserved = reserved or (frame.file is not None and of_c_library(frame.file))
    return reserved and plain(frame.function) in names


def is_left_over(thread: Thread | None) -> bool | None:
    """Return whether what the C library last said is no word on this abort; None if none can tell.

    It keeps its message for ever: a test suite that leaves an assertion by siglongjmp may abort for
    another reason hours later. Its own abort() is called by itself, a later one by somebody else.
    """
    frames = thread.frames if thread is not None else ()
    handled = thread.handler_index if thread is not None else None
    if handled is not None and _is_left_over(frames[:handled]) is False:
        return False  # the handler itself ended so
    return _is_left_over(frames[0 if handled is None else handled + 1 :])


def _is_left_over(frames: Iterable[Frame]) -> bool | None:
    aborts = False
    for frame in frames:
        of_glibc = owner(frame) is Owner.GLIBC
        nameless = frame.function == "??"
        if frame.trust is Trust.SCAN or (nameless and not (aborts and frame.module)):
            return None
        name = plain(frame.function)
        if name == "abort":
            aborts = True
        elif aborts:
            own = is_machinery(frame) and _TERMINATE.match(bare(frame.function)) is None
            return not (own or of_glibc or is_malloc(frame))
        elif name not in _RAISE and not of_glibc:
            return True  # it raised SIGABRT, as glibc never does
    return None


def is_terminate(frame: Frame) -> bool:
    """Return whether a frame is std::terminate or a function that only calls it."""
    name = bare(frame.function)
    return _TERMINATE.match(name) is not None and "terminate" in name


def is_terminated(thread: Thread) -> bool:
    """Return whether the C++ runtime called abort: std::terminate, named or in a stripped library.

    Distributions strip libstdc++'s local functions, and calls of `std::terminate` are tail calls
    in places: what is left is an unnamed frame of libstdc++ between abort and the code that threw.
    """
    end = site(thread)
    for frame in thread.frames[: 16 if end is None else end]:
        if _TERMINATE.match(bare(frame.function)) is not None:
            return True
        if frame.function == "??" and owner(frame) is Owner.CXX_RUNTIME:
            return end is None or not is_debug_mode(thread.frames[end])
    return False


def is_debug_mode(frame: Frame) -> bool:
    """Return whether a frame is a check of the C++ library, as -D_GLIBCXX_DEBUG asks for them."""
    return bare(frame.function).startswith(("__gnu_debug::", "std::__debug::"))


def is_malloc(frame: Frame) -> bool:
    """Return whether a frame is the allocator at work: the C library's, or one in its place."""
    return _MALLOC.match(bare(frame.function)) is not None or owner(frame) is Owner.ALLOCATOR


def in_allocator(thread: Thread | None) -> bool:
    """Return whether the innermost frame is malloc or free: then the heap is what is wrong.

    What these call is their own (musl's get_meta); of `operator new` and `delete` it may be others.
    """
    frames = thread.frames[:2] if thread is not None else ()
    if not frames or is_malloc(frames[0]):
        return bool(frames)
    return plain(frames[-1].function) in _HANDS_OUT and not any(frame.is_signal for frame in frames)


def site(thread: Thread) -> int | None:
    """Return the index of the innermost frame that is not machinery: who wanted this end."""
    return site_after(thread, 0)


def site_after(thread: Thread, start: int) -> int | None:
    """Return the same from a frame on."""
    for index in range(start, len(thread.frames)):
        frame = thread.frames[index]
        nameless = frame.function == "??"
        if is_machinery(frame):
            continue
        if nameless and owner(frame) in (Owner.GLIBC, Owner.CXX_RUNTIME):
            continue
        return index
    return None


def is_nameless(thread: Thread) -> bool:
    """Return whether nobody knows who wanted this end: his code is not here."""
    end = site(thread)
    return end is None or thread.frames[end].function == "??" or thread.frames[end].kind == "python"


def is_lone_word(thread: Thread, index: int) -> bool:
    """Return whether a frame is a word of the stack with no frame behind it: nobody's call.

    Python's frames behind it are the interpreter's own: no walk over the stack came to them.
    """
    behind = thread.frames[index + 1 :]
    return thread.frames[index].trust is Trust.SCAN and all(f.kind == "python" for f in behind)


def is_stray(thread: Thread) -> bool:
    """Return whether nothing but a word found on the stack says who called the innermost code.

    Code that is not here has no unwind tables either: there such a word says nothing.
    """
    calls = [f for f in thread.frames if f.kind == "native" and not f.inlined]
    return len(calls) > 1 and calls[1].trust is Trust.SCAN and calls[0].function != "??"


def caller(thread: Thread, start: int = 0) -> int | None:
    """Return the index of the innermost frame outside the C and C++ libraries."""
    skipped = (Owner.GLIBC, Owner.CXX_RUNTIME, Owner.KERNEL, Owner.ALLOCATOR)
    for index in range(start, len(thread.frames)):
        frame = thread.frames[index]
        if is_machinery(frame) or is_malloc(frame) or owner(frame) in skipped:
            continue
        if is_lone_word(thread, index):
            continue
        if not (is_of_header(frame) and index + 1 < len(thread.frames)):
            return index
    return None


def is_of_header(frame: Frame) -> bool:
    """Return whether a frame is a library's code, inlined from a header into somebody's function.

    FORTIFY_SOURCE makes memcpy and printf such, the C++ library nearly everything.
    """
    return frame.inlined and bool(frame.file) and _HEADER.search(frame.file or "") is not None


def exit_index(thread: Thread) -> int | None:
    """Return the index of the innermost frame that ends the program in order, or None.

    A main thread whose script is over waits in `Py_FinalizeEx` for the other threads, maybe for
    hours: that is no end yet (CPython's `wait_for_thread_shutdown`, threading._shutdown).
    """
    for index, frame in enumerate(thread.frames):
        waits = frame.kind == "python" and frame.function == "_shutdown"
        if waits or plain(frame.function) == "wait_for_thread_shutdown":
            return None
        if plain(frame.function) not in _EXIT:
            continue
        if plain(frame.function) == "exit" and owner(frame) not in (Owner.GLIBC, None):
            continue
        return index
    return None


_CTYPES = Pattern(
    r"^(ffi_call\w*|_call_function_pointer|_ctypes_callproc|PyCFuncPtr_call|string_at|wstring_at|"
    r"cast|memmove_at)$"
)


def has_python(threads: Iterable[Thread]) -> bool:
    """Return whether Python, or its interpreter, is on a stack."""
    return any(
        frame.kind == "python" or owner(frame) is Owner.CPYTHON
        for thread in threads
        for frame in thread.frames
    )


def ctypes_index(thread: Thread, within: int = 8) -> int | None:
    """Return the index of the innermost frame that belongs to a call through ctypes or cffi.

    PHP, Ruby and others call C by libffi as well: behind its frames must be Python's.
    """
    for index, frame in enumerate(thread.frames[:within]):
        if owner(frame) is Owner.LIBFFI:
            return index if has_python((thread,)) else None
        if _CTYPES.match(bare(frame.function)):
            return index
        if "_ctypes" in file_name(frame.module):
            return index
    return None


def fault_start(thread: Thread, kind: FaultKind) -> int:
    """Return the index of the frame where the fault was.

    Beyond the signal frame when a handler raised the signal again; else the innermost, also when
    that is itself inside a handler.
    """
    index = thread.handler_index if kind is FaultKind.RERAISED else None
    return 0 if index is None else index + 1


def place(thread: Thread | None, start: int = 0) -> str:
    """Return where a fault happened for a title: ``" in f, called from g"``, or nothing."""
    if thread is None or not thread.frames:
        return ""
    if start >= len(thread.frames):
        return ""
    at_exit = " at exit" if exit_index(thread) is not None else ""
    first = _own(thread, start)
    text = f" in {_name(first)}"
    compiled = compiled_by(thread, start)
    if compiled is not None:
        return f" in code that {compiled.compiler} compiled{at_exit}"
    index = ctypes_index(thread, start + 8)
    if index is not None and index > start:
        name = bare(thread.frames[index].function)
        through = f"ctypes.{name}" if name.endswith("string_at") else "ctypes"
        return f"{text}, called through {through}{at_exit}"
    if owner(first) in (Owner.GLIBC, Owner.CXX_RUNTIME, Owner.KERNEL):
        index = caller(thread, start)
        if index is not None:
            text += f", called from {_name(thread.frames[index])}"
    elif owner(first) is Owner.EXTENSION and first.function != "??":
        text += f" ({clip(module_name(first.module), 30)})"
    return text + at_exit


def _own(thread: Thread, start: int) -> Frame:
    """Return the frame to name: what is inlined from a library's header counts for its caller."""
    for frame in thread.frames[start:]:
        if not is_of_header(frame):
            return frame
    return thread.frames[start]


def frame_name(frame: Frame, limit: int = 36) -> str:
    """Return a function's name for a sentence; a lambda, which has none, is named by its line."""
    name = short(frame.function, limit)
    if name != "operator()":
        return name
    return f"a lambda at {file_name(frame.file)}:{frame.line}" if frame.line else "a lambda"


_HEADER = Pattern(r"^/usr/(local/)?include/|/include/c\+\+/|/bits/|/lib/gcc/|/lib/clang/")


def _name(frame: Frame) -> str:
    if owner(frame) is Owner.GENERATED:
        return Owner.GENERATED
    if frame.function == "??":
        return module_name(frame.module) if frame.module else "code of no known file"
    return frame_name(frame)


def thrown(exception: CppException | None, threads: Threads) -> CppException | None:
    """Return the C++ exception if it is the crashed thread's own, else None.

    Other threads may hold exceptions that they are handling in good order.
    """
    crashed = threads.crashed
    if exception is None or (crashed is not None and exception.tid != crashed.tid):
        return None
    return exception


_NOT_YOURS = Pattern(
    r"/lib(64)?/python[\d.]+/|/(site|dist)-packages/|^<|/torchinductor_|"
    r"/[a-z2-7]{2}/c[a-z2-7]{51}(\.main)?\.py$"
)
_UNNAMED = Pattern(r"^<(string|stdin|ipython|unknown)")
"""Code without a file: `python -c`, exec(); yours, but dataclasses and templates have such too."""


def python_index(thread: Thread) -> int | None:
    """Return the index of the innermost Python frame that is the user's own code.

    ctypes, threading and the packages wrap what users call; without a line of the user's own the
    innermost Python frame is taken.
    """
    python = [i for i, frame in enumerate(thread.frames) if frame.kind == "python"]
    files = [(i, thread.frames[i].file or "<frozen>") for i in python]
    for index, file in files:
        if not _NOT_YOURS.search(file):
            return index
    for index, file in files:
        if _UNNAMED.search(file):
            return index
    return python[0] if python else None


def own_caller(thread: Thread | None) -> str:
    """Return the innermost function of the user's own, as a step names it."""
    frames = own_frames(thread) if thread is not None else ()
    frame = next((f for f in frames if f.file and f.line and not of_c_library(f.file)), None)
    if frame is None or not is_own(frame.file):
        return "the innermost of your own functions on the crashed stack"
    return f"{clip(frame.function, 40)} ({file_name(frame.file or '')}:{frame.line})"
