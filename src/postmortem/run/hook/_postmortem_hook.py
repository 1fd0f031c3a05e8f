"""Runs inside of the user's Python processes: what a process leaves of itself under `run`.

Nothing of postmortem is imported here, and of the standard library only what costs next to
nothing; the rest waits for the moment of a failure. Whatever goes wrong here stays here.
Works on CPython 3.8 and later.
"""

from __future__ import annotations

import os
import sys
import time

from _postmortem_import import on_import
from _postmortem_values import local_values

_HOLD_SECONDS = 3.0
"""How long a process that raised waits for the stacks of the others to be taken."""
_ANSWER_SECONDS = 0.5
"""How long it waits for any word at all."""
_BOX_BYTES = 8192
_MOST_FRAMES = 200
_LIBRARY = ("site-packages", "/lib/python", os.sep + os.path.join("postmortem", "monitor", ""))
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
_state = {
    "folder": "",
    "pid": 0,
    "fd": -1,
    "spare": (-1, ""),
    "path": "",
    "seen": None,
    "raises": 0,
}


def install(folder):
    """Make the box of this process, tell the supervisor of it, and hook what raises."""
    _state["folder"] = folder
    _open_box()
    _tell(b"hello")
    _hook()
    os.register_at_fork(after_in_child=_after_fork)
    supervisor = os.environ.get("POSTMORTEM_RUN_PTRACER", "")
    if supervisor.isdigit():
        _allow_reader(int(supervisor))


def _open_box(replaced=-1):
    """Make the file that outlives this process: a page of facts, behind it what a crash prints.

    `replaced` is the descriptor of the parent's box, to which faulthandler writes.
    """
    pid = os.getpid()
    _state["pid"] = pid
    path = "%s/box/%d-%x.box" % (_state["folder"], pid, time.time_ns())
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
    except OSError:
        return
    try:
        written = os.write(fd, _facts().ljust(_BOX_BYTES, b"\0"))
    except OSError:
        written = 0
    if written < _BOX_BYTES:  # the disk is full
        os.close(fd)
        os.unlink(path)
        return
    _state["path"] = path
    if replaced >= 0:
        os.dup2(fd, replaced, inheritable=False)
        os.close(fd)
        _state["fd"] = replaced
    else:
        _state["fd"] = _out_of_the_way(fd)
        _keep_a_spare()
        _enable_faulthandler(_state["fd"])


def _facts():
    env = os.environ
    rank = next((env[name] for name in _RANKS if env.get(name, "").isdigit()), "")
    rows = (
        "postmortem box 1",
        "pid %d" % os.getpid(),
        "ppid %d" % os.getppid(),
        "started %.6f" % time.time(),
        "rank %s" % rank,
        "python %d.%d.%d" % sys.version_info[:3],
        "error_file %s" % env.get("TORCHELASTIC_ERROR_FILE", ""),
    )
    text = "\n".join(row.replace("\n", " ")[:1000] for row in rows) + "\n"
    return text.encode("utf-8", "replace")[: _BOX_BYTES // 2]


def _out_of_the_way(fd):
    """Return the descriptor under a high number: the program's own files keep theirs."""
    import fcntl

    for least in (1000, 200, 60):
        try:
            high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
        except (OSError, ValueError):
            continue
        os.close(fd)
        return high
    return fd


def _enable_faulthandler(fd):
    """Have a crash print the Python stacks into the box, unless the user has asked for it."""
    import faulthandler

    if os.environ.get("PYTHONFAULTHANDLER") or sys.flags.dev_mode or faulthandler.is_enabled():
        return
    faulthandler.enable(fd, all_threads=True)


def _after_fork():
    """A child of fork is a process of its own, with a box of its own."""
    try:
        old, path = _state["fd"], _state["path"]
        _state["raises"] = 0
        _state["seen"] = None
        _state["fd"] = -1
        _open_box(old if old >= 0 and _is_file(old, path) else -1)
        _tell(b"hello")
    except Exception:
        pass


def _keep_a_spare():
    """Hold one descriptor more, for what is opened when the program has used up all."""
    if _is_file(_state["fd"], _state["path"]):
        _state["spare"] = _out_of_the_way(os.dup(_state["fd"])), _state["path"]


def _give_back_the_spare():
    spare, path = _state["spare"]
    if _is_file(spare, path):
        os.close(spare)
    _state["spare"] = -1, ""


def _is_file(fd, path):
    """Return whether a descriptor is still ours: programs close all that they do not know."""
    try:
        return os.readlink("/proc/self/fd/%d" % fd) == path
    except OSError:
        return False


def _allow_reader(supervisor):
    """Let the supervisor read this process where only ancestors may (yama's ptrace_scope 1)."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(0x59616D61, supervisor, 0, 0, 0)  # PR_SET_PTRACER
    except Exception:
        pass


def _tell(what, hold=False):
    """Send a word to the supervisor; with `hold` wait until it has taken the others' stacks.

    Returns what it answered, b"" where nobody does.
    """
    import _socket

    try:
        channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC, 0)
    except OSError:
        return b""
    try:
        if hold:
            channel.bind(b"")  # an address of the kernel's choice, for the answer
        channel.connect(_state["folder"] + "/socket")
        channel.setblocking(False)
        channel.send(what)
        if not hold:
            return b""
        end = time.monotonic() + _HOLD_SECONDS
        channel.settimeout(_ANSWER_SECONDS)
        while True:
            answer = channel.recv(4096)
            if answer != b"wait":
                return answer
            channel.settimeout(max(0.01, end - time.monotonic()))
    except (OSError, ValueError):
        return b""
    finally:
        channel.close()


# --- what raises


def _hook():
    import _thread
    import atexit

    before = sys.excepthook

    def excepthook(kind, value, trace):
        before(kind, value, trace)
        # torch.distributed calls this with another stderr, and prints when it has returned.
        later = getattr(sys.modules.get("threading"), "_register_atexit", None)
        if sys.stderr is not sys.__stderr__ and later is not None:
            later(_raised, kind, value, trace, "main")
        else:
            _raised(kind, value, trace, "main")

    sys.excepthook = excepthook
    atexit.register(_at_exit)

    def of_thread(original):
        def hook(args):
            original(args)
            if args.exc_type is not SystemExit:
                _raised(args.exc_type, args.exc_value, args.exc_traceback, "thread", args.thread)

        return hook

    # threading takes its hook from here when it is imported, which it is not yet.
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.excepthook = of_thread(threading.excepthook)
    elif hasattr(_thread, "_excepthook"):
        _thread._excepthook = of_thread(_thread._excepthook)

    unraisable = sys.unraisablehook

    def unraisablehook(args):
        unraisable(args)
        _raised(args.exc_type, args.exc_value, args.exc_traceback, "ignored")

    sys.unraisablehook = unraisablehook
    on_import("traceback", _hook_traceback)


_PRINTERS = (
    ("_bootstrap", "multiprocessing/process.py"),
    ("_wrap", "torch/multiprocessing/spawn.py"),
)
"""Functions that catch what a child process raised, put it into words, and end the process."""


def _hook_traceback(module):
    """See the exceptions that multiprocessing prints itself: its children call no hook."""

    def hooked(original):
        def wrapper(*args, **kwargs):
            try:
                return original(*args, **kwargs)
            finally:
                kind, value, trace = sys.exc_info()
                if trace is not None:
                    code = trace.tb_frame.f_code
                    for name, file in _PRINTERS:
                        if code.co_name == name and code.co_filename.endswith(file):
                            _raised(kind, value, trace, "process")

        wrapper.__name__ = original.__name__
        wrapper.__doc__ = original.__doc__
        wrapper.__wrapped__ = original
        return wrapper

    module.print_exc = hooked(module.print_exc)
    module.format_exc = hooked(module.format_exc)


def _at_exit():
    """Tell of an exception whose hook the program has put its own in the place of.

    The interpreter keeps what ended the program before it calls any hook.
    """
    interactive = sys.flags.interactive or hasattr(sys, "ps1") or "IPython" in sys.modules
    value = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if value is not None and id(value) != _state["seen"] and not interactive:
        _raised(type(value), value, value.__traceback__, "last")


def _raised(kind, value, trace, where, thread=None):
    """Write down an exception, and hold still until the stacks of others are taken."""
    try:
        if os.getpid() != _state["pid"] or value is None or id(value) == _state["seen"]:
            return
        # The interpreter ends itself by SIGINT after it, but not if a hook has run code from a
        # string, as the import of collections does (run_eval_code_obj in CPython's pythonrun.c).
        if issubclass(kind, KeyboardInterrupt):
            return
        if where in ("main", "process"):
            _state["seen"] = id(value)
        _state["raises"] += 1
        if _state["raises"] > 16:
            return
        now = time.time()
        _give_back_the_spare()
        path = _write_raise(kind, value, trace, where, thread, now)
        if where in ("main", "process"):
            words = "%s: %s" % (kind.__name__, _beginning(str(value), 500))
            name = os.path.basename(path) if path else ""
            answer = _tell(
                ("raise\n%s\n%.6f\n%s" % (name, now, words)).encode("utf-8", "replace"), hold=True
            )
            _amend_error_file(words, value, trace, now, answer.decode("utf-8", "replace"))
        _keep_a_spare()
    except Exception:
        if os.environ.get("POSTMORTEM_DEBUG", "0") not in ("", "0"):
            raise


def _beginning(text, most):
    """Return what stands before the last blank in reach: half a credential is not known as one."""
    return text if len(text) <= most else text[:most].rsplit(None, 1)[0]


def _write_raise(kind, value, trace, where, thread, now):
    import json
    import traceback

    path = "%s/raises/%d-%d.json" % (_state["folder"], os.getpid(), _state["raises"])
    env = os.environ
    text = "".join(traceback.format_exception(kind, value, trace))
    inner = _inner(value)
    said = ("%s: %s" % (type(inner).__name__, inner)).rstrip(": ")
    document = {
        "inner": None if inner is value else _beginning(said, 10000),
        "time": now,
        "pid": os.getpid(),
        "rank": next((int(env[name]) for name in _RANKS if env.get(name, "").isdigit()), None),
        "where": where,
        "thread": getattr(thread, "name", None),
        "type": "%s.%s" % (kind.__module__, kind.__qualname__),
        "message": _beginning(str(value), 10000),
        "traceback": text[-200000:],
        "frames": _frames(trace if inner is value else inner.__traceback__ or trace),
    }
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
            json.dump(document, stream)
    except OSError:
        return None
    return path


def _inner(value):
    """Return the first exception of a group that is no group itself; else the exception."""
    import builtins

    group = getattr(builtins, "BaseExceptionGroup", ())
    while isinstance(value, group):
        value = value.exceptions[0]
    return value


def _frames(trace):
    found = []
    while trace is not None:
        found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    rows = []
    for frame, line in found[-_MOST_FRAMES:]:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        library = any(part in file for part in _LIBRARY) or file.startswith("<frozen")
        row = {"file": file, "line": line, "function": function, "library": library}
        is_last = frame is found[-1][0]
        row["locals"] = {} if library and not is_last else local_values(frame)
        rows.append(row)
    return rows


def _amend_error_file(words, value, trace, now, answer):
    """Say in torchelastic's error file what raised, and who had raised before.

    torchrun prints that file in its summary. @record has written it already where the program
    uses it.
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or path == os.devnull or path.startswith(_state["folder"]):
        return
    import json
    import traceback

    go, place, told = [*answer.split("\n", 2), "", ""][:3]
    note = "postmortem: %s" % ((told if go == "go" else "") or "raised %s" % words)
    stack = "".join(traceback.format_exception(type(value), value, trace))
    extra = {"py_callstack": stack, "timestamp": str(int(now))}
    document = {"message": {"message": words, "extraInfo": extra}}
    try:
        with open(path) as stream:
            document = json.load(stream)
    except (OSError, ValueError):
        pass
    extra = document["message"]["extraInfo"]
    extra["py_callstack"] = extra["py_callstack"].rstrip("\n") + "\n" + note + "\n"
    if place == "later":  # of whole seconds the earliest is torchrun's root cause
        extra["timestamp"] = str(int(extra.get("timestamp") or now) + 1)
    with open(path, "w") as stream:
        json.dump(document, stream)
