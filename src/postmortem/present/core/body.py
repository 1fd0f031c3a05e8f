"""The fields of ``kind core`` in the JSON report, as docs/report-schema.md lays them down.

Additive only: a field may be null, and never changes its meaning.
"""

from __future__ import annotations

from postmortem.diagnose.stacks.groups import groups
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.memory import Address, Module
from postmortem.facts.process import CoreFile, Process
from postmortem.present.core.thread_body import ThreadBodies, group_body, raised_body
from postmortem.present.core.view import CoreView
from postmortem.text import address, address_or_null


def core_body(view: CoreView, *, with_locals: bool = False) -> dict[str, object]:
    """Return the fields of a core's report as plain JSON values."""
    executable = view.process.executable
    found = groups(view.threads, executable)
    group_of = {tid: group.id for group in found for tid in group.tids}
    crashed = view.threads.crashed
    exception = view.cpp_exception
    bodies = ThreadBodies(view.threads.main_tid, executable, with_locals=with_locals)
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
        "fatal_python_error": None
        if view.fatal_python_error is None
        else {
            "function": view.fatal_python_error.function,
            "message": view.fatal_python_error.message,
        },
        "panic": None
        if view.panic is None
        else {"language": view.panic.language, "text": view.panic.text},
        "cpp_exception": None
        if exception is None
        else {
            "type": exception.type,
            "what": exception.what,
            "tid": exception.tid,
            "found_by": exception.found_by,
            "state": exception.state,
        },
        "python_exception": raised_body(view.python_exception),
        "crashed_thread": None if crashed is None else crashed.tid,
        "main_thread": view.threads.main_tid,
        "registers": None
        if crashed is None
        else {name: address(value) for name, value in crashed.registers},
        "threads": [bodies.of(thread, group_of[thread.tid]) for thread in view.threads],
        "groups": [group_body(group) for group in found],
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
        "address": None
        if signal is None
        else address_or_null(None if signal.inferred else signal.address),
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
        "address": address_or_null(None if signal.inferred else signal.address),
        "sender_pid": signal.sender_pid,
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
            "operand_address": address_or_null(instruction.operand_address),
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
        "start": address_or_null(place.start),
        "end": address_or_null(place.end),
        "permissions": place.permissions,
        "kind": place.kind,
        "path": place.path,
        "file_offset": place.file_offset,
        "above_start": address_or_null(place.above_start),
        "above_kind": place.above_kind,
        "below_end": address_or_null(place.below_end),
    }
