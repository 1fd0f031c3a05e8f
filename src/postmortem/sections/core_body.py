"""The fields of ``kind core`` in the JSON report, as docs/report-schema.md lays them down.

Additive only: a field may be null, and never changes its meaning.
"""

from __future__ import annotations

from postmortem.facts.crash import Fault, Signal
from postmortem.facts.memory import Address, Module
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import Frame, RaisedException, Thread, Wait
from postmortem.sections.activity import area, kind_of, role
from postmortem.sections.core_view import CoreView
from postmortem.sections.grouping import Group, groups
from postmortem.sections.quantities import address


def core_body(view: CoreView, *, with_locals: bool = False) -> dict[str, object]:
    """Return the fields of a core's report as plain JSON values."""
    executable = view.process.executable
    found = groups(view.threads, executable)
    group_of = {tid: group.id for group in found for tid in group.tids}
    crashed = view.threads.crashed
    exception = view.cpp_exception
    shared: dict[int, dict[str, object]] = {}
    return {
        "process": _process(view.process),
        "signal": _signal(view),
        "signature": None
        if view.signature is None
        else {
            "hash": view.signature.hash,
            "summary": view.signature.summary,
            "calls": list(view.signature.calls),
        },
        "abort_message": None if view.abort_message is None else view.abort_message.text,
        "cpp_exception": None
        if exception is None
        else {
            "type": exception.type,
            "what": exception.what,
            "tid": exception.tid,
            "found_by": exception.found_by,
        },
        "python_exception": _raised(view.python_exception),
        "crashed_thread": None if crashed is None else crashed.tid,
        "main_thread": view.threads.main_tid,
        "registers": None
        if crashed is None
        else {name: address(value) for name, value in crashed.registers},
        "threads": [
            _thread(thread, view, group_of[thread.tid], with_locals, shared)
            for thread in view.threads
        ],
        "groups": [_group(group) for group in found],
        "modules": [_module(module) for module in view.modules],
        "memory": {
            "mapped_bytes": view.memory.mapped_bytes,
            "dumped_bytes": view.memory.dumped_bytes,
            "by_kind": dict(view.memory.by_kind),
        },
        "core": _core(view.core),
        "fault": _fault(view.fault),
    }


def _process(process: Process) -> dict[str, object]:
    return {
        "pid": process.pid,
        "executable": process.executable,
        "argv": list(process.argv),
        "env": dict(process.env),
        "env_is_current": process.env_is_current,
        "rank": process.rank,
        "local_rank": process.local_rank,
        "world_size": process.world_size,
        "launcher": process.launcher,
        "role": process.role,
        "hostname": process.hostname,
        "crashed_at": process.crashed_at,
        "python_version": process.python_version,
        "ppid": process.ppid,
        "uid": process.uid,
        "command": process.command,
        "machine": process.machine,
    }


def _signal(view: CoreView) -> dict[str, object]:
    """Return the signal; in a snapshot only the explanation, as no signal came."""
    failed = view.signal
    signal = failed
    if failed is not None and failed.then is not None and failed.then.number != failed.number:
        signal = failed.then
    return {
        "number": None if signal is None else signal.number,
        "name": None if signal is None else signal.name,
        "code": None if signal is None else signal.code,
        "code_number": None if signal is None else signal.code_number,
        "address": None if signal is None else _hex(signal.address),
        "sender_pid": None if signal is None else signal.sender_pid,
        "sender_uid": None if signal is None else signal.sender_uid,
        "explanation": view.explanation,
        "caught": None if failed is None or failed.then is None else _caught(failed),
    }


def _caught(signal: Signal) -> dict[str, object]:
    """Return the fault that a handler caught first; `signal` tells how the process ended then."""
    return {
        "number": signal.number,
        "name": signal.name,
        "code": signal.code,
        "address": _hex(signal.address),
        "sender_pid": signal.sender_pid,
    }


def _thread(
    thread: Thread,
    view: CoreView,
    group: int,
    with_locals: bool,
    shared: dict[int, dict[str, object]],
) -> dict[str, object]:
    """Return one thread; a frame that threads share is one object in `shared`, by its `id`."""
    for frame in thread.frames:
        if id(frame) not in shared:
            shared[id(frame)] = _frame(frame, view.process.executable, with_locals)
    executable = view.process.executable
    return {
        "tid": thread.tid,
        "name": thread.name,
        "python_name": thread.python_name,
        "role": role(thread, view.threads.main_tid, executable),
        "crashed": thread.crashed,
        "holds_gil": thread.holds_gil,
        "group": group,
        "python_exception": _raised(thread.python_exception),
        "waits_for": _wait(thread.waits_for),
        "stopped": thread.stopped,
        "skipped_frames": thread.skipped,
        "skipped_at": thread.skipped_at,
        "frames": [shared[id(frame)] for frame in thread.frames],
    }


def _frame(frame: Frame, executable: str | None, with_locals: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "kind": frame.kind,
        "function": frame.function,
        "pc": _hex(frame.pc),
        "module": frame.module,
        "module_offset": _hex(frame.module_offset),
        "file": frame.file,
        "line": frame.line,
        "inlined": frame.inlined,
        "tail_call": frame.tail_call,
        "note": kind_of(frame, executable).note,
        "area": area(frame, executable),
        "trust": str(frame.trust),
        "arguments": dict(frame.arguments),
    }
    if with_locals:
        fields["locals"] = dict(frame.locals)
    return fields


def _raised(exception: RaisedException | None) -> dict[str, object] | None:
    if exception is None:
        return None
    return {"type": exception.type, "message": exception.message}


def _wait(wait: Wait | None) -> dict[str, object] | None:
    if wait is None:
        return None
    return {
        "what": wait.what,
        "address": address(wait.address),
        "holder": wait.holder,
        "kind": wait.kind,
        "confidence": None if wait.holder is None else "certain" if wait.certain else "likely",
        "how": wait.how,
        "held_at": wait.held_at,
        "missing_owner": wait.missing_owner,
        "timed": wait.timed,
    }


def _group(group: Group) -> dict[str, object]:
    return {
        "id": group.id,
        "tids": list(group.tids),
        "summary": group.summary,
        "role": group.activity.role,
        "state": group.activity.state,
    }


def _module(module: Module) -> dict[str, object]:
    return {
        "path": module.path,
        "build_id": module.build_id,
        "start": address(module.start),
        "end": address(module.end),
        "status": module.status,
        "disk_path": module.disk_path,
        "disk_build_id": module.disk_build_id,
    }


def _core(core: CoreFile) -> dict[str, object]:
    return {
        "path": core.path,
        "origin": core.origin,
        "size_bytes": core.size_bytes,
        "expected_bytes": core.expected_bytes,
        "truncated": core.truncated,
        "slim": None
        if core.slim is None
        else {
            "source_bytes": core.slim.size_bytes,
            "source_expected_bytes": core.slim.expected_bytes,
            "kept_bytes": core.slim.kept_bytes,
            "lost_bytes": core.slim.lost_bytes,
        },
    }


def _fault(fault: Fault | None) -> dict[str, object] | None:
    if fault is None:
        return None
    instruction, file = fault.instruction, fault.file
    return {
        "pc": _address(fault.pc),
        "sp": _address(fault.sp),
        "address": _address(fault.address),
        "operand": _address(fault.operand),
        "stack_limit": fault.stack_limit,
        "instruction": None
        if instruction is None
        else {
            "pc": address(instruction.pc),
            "code": instruction.code.hex(),
            "text": instruction.text,
            "operand": instruction.operand,
            "operand_address": _hex(instruction.operand_address),
            "access": instruction.access,
            "feature": instruction.feature,
        },
        "file": None
        if file is None
        else {
            "path": file.path,
            "offset": file.offset,
            "exists": file.exists,
            "size": file.size,
            "deleted_then": file.deleted_then,
            "filesystem_free": file.filesystem_free,
            "filesystem_size": file.filesystem_size,
            "filesystem_type": file.filesystem_type,
        },
    }


def _address(place: Address | None) -> dict[str, object] | None:
    if place is None:
        return None
    return {
        "value": address(place.value),
        "mapped": place.mapped,
        "start": _hex(place.start),
        "end": _hex(place.end),
        "permissions": place.permissions,
        "kind": place.kind,
        "path": place.path,
        "file_offset": place.file_offset,
        "above_start": _hex(place.above_start),
        "above_kind": place.above_kind,
        "below_end": _hex(place.below_end),
    }


def _hex(value: int | None) -> str | None:
    return None if value is None else address(value)
