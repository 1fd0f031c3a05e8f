"""Stacks as blocks: the crashed thread frame by frame, the others in groups."""

from postmortem.diagnose.stacks.activity import area, kind_of, role
from postmortem.diagnose.stacks.frame_identity import call_key
from postmortem.diagnose.stacks.groups import Group, groups
from postmortem.diagnose.stacks.names import location, shorten
from postmortem.facts.threads import Frame, Thread, Trust, is_ours
from postmortem.knowledge.modules import EXTENSION, PROGRAM, module_kind, short_name
from postmortem.patterns import Pattern
from postmortem.present.core.view import CoreView
from postmortem.present.folding import UNNAMED, Fold, folded
from postmortem.records import record
from postmortem.report.blocks import Backtrace, BacktraceLine, Block, Table, Tone
from postmortem.report.model import Diagnosis, Role
from postmortem.text import address, counted, cut, some

_MOST_GROUPS = 14
_MOST_VERBOSE_FRAMES = 2_000
"""From here on even the full view folds recursion: a million lines help nobody."""
_LONGEST_VALUE = 200
_LONGEST_NAME = 16_000
"""Template names of PyTorch reach 12,000 characters; what is longer is no name."""
_OBVIOUS_AREAS = frozenset({"C library", "C++ runtime", "system library"})
"""Areas that the name of the module says as well."""
_OF_INTERPRETER = frozenset({"damaged_object", "gil_not_held", "py_fatal_error", "gil_at_exit"})
"""Diagnoses that CPython's own frames matter to: the line of Python is where it happened to run."""
_RUN_TIME_AREAS = frozenset({"C library", "C++ runtime", "sanitizer", "language runtime"})
_OF_LANGUAGE = Pattern(
    r"<?(core|alloc|std::(panicking|sys|sys_common|rt|process|thread|option|result))::|"
    r"_*(rust_|rustc::)|_*(asan|ubsan|tsan|msan|lsan|hwasan|sanitizer|interceptor)_|runtime\.\w|"
    r"<.* as (core|alloc)::"
)
"""Run-times that are linked into the program: Rust's, sanitizers', Go's."""


@record
class _Style:
    executable: str | None
    mismatched: frozenset[str]
    verbose: bool
    with_locals: bool


def stack_blocks(
    view: CoreView, *, verbose: bool, all_threads: bool, with_locals: bool
) -> tuple[Block, ...]:
    """Return the stack that the report opens with, then the other threads in groups."""
    mismatched = frozenset(m.path for m in view.modules if m.status == "mismatch")
    style = _Style(view.process.executable, mismatched, verbose, with_locals)
    shown = view.shown_thread
    if shown is None:
        return ()
    blocks: list[Block] = [_opening_stack(view, shown, style)]
    found = groups(view.threads, view.process.executable)
    others = tuple(group for group in found if shown not in group.threads)
    if len(found) > len(others) and len(view.threads) == 1:
        return tuple(blocks)
    if others:
        blocks.append(_table(others, every=verbose or all_threads))
    if verbose or all_threads:
        blocks += [_group_stack(group, style) for group in others]
    return tuple(blocks)


def _opening_stack(view: CoreView, thread: Thread, style: _Style) -> Backtrace:
    crashed = view.threads.crashed
    is_main = thread.tid == view.threads.main_tid
    kind = "crashed thread" if thread.crashed else "main thread" if is_main else "thread"
    own_role = role(thread, view.threads.main_tid, style.executable)
    remarks = [
        # the name says it already, or the title does
        "main thread" if own_role == "main" and thread.crashed else None,
        own_role if own_role != "main" else None,
        _depth(thread),
        "holds the GIL" if thread.holds_gil else None,
        f"the crashed one is thread {crashed.tid}" if crashed and crashed is not thread else None,
    ]
    markers = _markers(view.diagnoses, thread, style.executable)
    return Backtrace(
        title=thread.words.replace("thread", kind, 1),
        lines=_lines(thread, style, markers),
        subtitle=" · ".join(filter(None, remarks)),
    )


def _depth(thread: Thread) -> str:
    least = "at least " if thread.stopped is not None else ""
    return least + counted(len(thread.frames) + max(thread.skipped_frames, 0), "frame")


def _markers(
    diagnoses: tuple[Diagnosis, ...], thread: Thread, executable: str | None
) -> dict[int, str]:
    """Return why the reader should look at frames: one frame for each diagnosis that cites some.

    A rule cites the whole way (abort, terminate, the thrower); the frame that tells most is the
    innermost cited one outside of the run-time libraries.
    """
    markers: dict[int, str] = {}
    frames = thread.frames
    for diagnosis in diagnoses:
        if diagnosis.role is Role.CONTEXT:
            continue
        places = [one.frame for one in diagnosis.evidence if one.frame is not None]
        cited = [place for tid, place in places if tid == thread.tid and place < len(frames)]
        told = [i for i in cited if not _is_run_time(frames[i], executable)]
        if told and diagnosis.id not in _OF_INTERPRETER and _is_interpreters(frames[told[0]]):
            told = [i for i in cited if frames[i].kind == "python"] or told
        if cited:
            word = "the message" if diagnosis.role is Role.CASCADE else "look here"
            markers.setdefault((told or cited)[0], word)
    return markers


def _is_run_time(frame: Frame, executable: str | None) -> bool:
    """Return whether a frame is of what every program of its language brings along."""
    return (
        area(frame, executable) in _RUN_TIME_AREAS or _OF_LANGUAGE.match(frame.function) is not None
    )


def _is_interpreters(frame: Frame) -> bool:
    """Return whether a frame only does what a line of Python asked for: os_kill_impl, ffi_call."""
    if frame.kind == "python":
        return False
    name = short_name(frame.module) or ""
    return module_kind(frame.module).area == "CPython" or name.startswith(("_ctypes", "libffi"))


def _lines(
    thread: Thread, style: _Style, markers: dict[int, str] | None = None
) -> tuple[BacktraceLine, ...]:
    markers = markers or {}
    frames = thread.frames
    if not frames:
        why = thread.stopped or "the core does not hold this thread's stack"
        return (BacktraceLine(function=f"no frames: {why}", tone=Tone.WARNING),)
    if style.verbose and len(frames) <= _MOST_VERBOSE_FRAMES:
        entries: tuple[int | Fold, ...] = tuple(range(len(frames)))
    else:
        entries = folded(
            [call_key(frame) for frame in frames],
            [_function(frame, short=True) for frame in frames],
            [_boilerplate(frame, style.executable) for frame in frames],
            keep=markers,
        )
    lines: list[BacktraceLine] = []
    said: str | None = None
    gap = thread.skipped_at if thread.skipped_frames > 0 else None
    for entry in entries:
        if gap is not None and (entry if isinstance(entry, int) else entry.first) >= gap:
            lines.append(_gap(thread))
            gap = None
        if isinstance(entry, Fold):
            text = entry.text
            if gap is not None and gap < entry.first + entry.count:
                text += f"; {counted(thread.skipped_frames, 'frame')} among them left out"
                gap = None
            lines.append(BacktraceLine(function=text, tone=Tone.QUIET))
            continue
        frame = frames[entry]
        if is_ours(frame.file):
            continue
        note = kind_of(frame, style.executable).note
        # three frames of raise() in a row do one thing
        repeated = note == said and not style.verbose
        lines.append(_line(entry, frame, style, markers.get(entry), None if repeated else note))
        said = note
    if gap is not None:
        lines.append(_gap(thread))
    if thread.stopped is not None:
        text = f"the walk stopped here: {thread.stopped}"
        lines.append(BacktraceLine(function=text, tone=Tone.WARNING))
    return tuple(lines)


def _gap(thread: Thread) -> BacktraceLine:
    text = f"{counted(thread.skipped_frames, 'frame')} left out: the stack is too deep"
    return BacktraceLine(function=text, tone=Tone.WARNING)


def _boilerplate(frame: Frame, executable: str | None) -> str | None:
    if frame.function == "??" and area(frame, executable) in ("C library", "C++ runtime"):
        return UNNAMED  # libstdc++ without symbols: execute_native_thread_routine has no name
    return kind_of(frame, executable).fold


def _line(
    index: int, frame: Frame, style: _Style, marker: str | None, note: str | None
) -> BacktraceLine:
    kind = kind_of(frame, style.executable)
    own_area = area(frame, style.executable)
    if marker is not None:
        tone = Tone.BAD
    elif frame.trust is Trust.SCAN or frame.module in style.mismatched:
        tone = Tone.WARNING
    elif kind.noise:
        tone = Tone.QUIET
    elif own_area in (EXTENSION, PROGRAM) or frame.kind == "python":
        tone = Tone.STRONG
    else:
        tone = Tone.PLAIN
    return BacktraceLine(
        function=_function(frame, short=not style.verbose),
        index=index,
        module="Python" if frame.kind == "python" else short_name(frame.module),
        location=location(frame.file, frame.line, whole=style.verbose),
        note=_note(frame, note, own_area, style),
        marker=marker,
        tone=tone,
        details=_details(frame, style),
    )


def _function(frame: Frame, *, short: bool) -> str:
    if frame.function == "??":
        # what addr2line and a later look with symbols need
        offset = frame.module_offset
        return "??" if offset is None else f"?? +{offset:#x}"
    name = frame.function[:_LONGEST_NAME]
    if short and frame.kind == "native":
        name = shorten(name)
    if frame.tail_call:
        return f"{name} [tail call]"
    return f"{name} [inlined]" if frame.inlined else name


def _note(frame: Frame, note: str | None, own_area: str, style: _Style) -> str | None:
    own_area = "" if own_area in ("unknown", "Python") else own_area
    if note is None:
        text = module_kind(frame.module).label if own_area == "system library" else own_area
    elif not own_area or own_area in _OBVIOUS_AREAS or own_area.split()[0] in note:
        text = note
    else:
        text = f"{own_area}: {note}"
    remarks = [text]
    if frame.module in style.mismatched:
        remarks.append("another build of it is on disk: no names")
    if frame.trust is Trust.SCAN:
        remarks.append("found by searching the stack")
    return "; ".join(filter(None, remarks)) or None


def _details(frame: Frame, style: _Style) -> tuple[tuple[str, str], ...]:
    rows = frame.arguments if style.verbose or style.with_locals else ()
    if style.with_locals:
        rows = (*rows, *frame.locals)
    if style.verbose:
        return rows
    return tuple((name, cut(value, _LONGEST_VALUE)) for name, value in rows)


def _table(others: tuple[Group, ...], *, every: bool) -> Table:
    shown = others if every else others[:_MOST_GROUPS]
    rows = [(_who(group), group.activity.where, _state(group)) for group in shown]
    rest = others[len(shown) :]
    if rest:
        count = counted(sum(len(group.threads) for group in rest), "thread")
        rows.append((f"{count} in {counted(len(rest), 'more group')}", "--all shows them", ""))
    total = counted(sum(len(group.threads) for group in others), "other thread")
    return Table(
        columns=("threads", "where", "state"),
        rows=tuple(rows),
        title=f"{total} in {counted(len(others), 'group')}",
    )


def _who(group: Group) -> str:
    alone = len(group.threads) == 1
    return f"{group.label} ({group.tids[0]})" if alone else group.label


def _state(group: Group) -> str:
    first = group.threads[0]
    parts = [group.activity.waits or group.activity.state]
    if first.waits_for is not None and first.waits_for.contended:
        # whose end a join waits for is said already
        held = None if first.waits_for.kind == "join" else first.waits_for.holder
        parts[0] += f", held by thread {held}" if held is not None else ""
    if first.holds_gil:
        parts.insert(0, "holds the GIL")
    if first.python_exception is not None:
        parts.append(f"{first.python_exception.type} in flight")
    return ", ".join(parts)


def _group_stack(group: Group, style: _Style) -> Backtrace:
    first = group.threads[0]
    return Backtrace(
        title=f"{group.label}: {some(group.tids, 24)}",
        lines=_lines(first, style),
        subtitle=f"{_state(group)} · {_depth(first)}",
    )


def register_block(thread: Thread) -> Table | None:
    """Return the registers of a thread, four in a row, as ptrace names them."""
    cells = [(name, address(value)) for name, value in (thread.registers or {}).items()]
    if not cells:
        return None
    rows = [
        tuple(text for cell in cells[start : start + 3] for text in cell)
        for start in range(0, len(cells), 3)
    ]
    width = 6
    padded = tuple((*row, *("",) * (width - len(row))) for row in rows)
    return Table(columns=("", "value") * 3, rows=padded, title=f"registers of {thread.tid}")
