#!/usr/bin/env python3
"""Write `tables.cpp`: where CPython keeps its fields, read from the DWARF of real interpreters.

    generate.py [--gdb GDB] PYTHON... > tables.cpp

Each PYTHON is an interpreter that was built with debug information (its own, or its libpython's).
gdb reads the types: it knows every DWARF version, and is here anyway. From 3.13 on, the offsets
that a process publishes itself (`_Py_DebugOffsets`) go before the table's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from pathlib import Path

# Field of `Layout`: where to find it, first match wins. "sizeof T" is the size of a type.
FIELDS: dict[str, list[str]] = {
    "runtime_interpreters": ["_PyRuntimeState interpreters.head"],
    "runtime_gil": ["_PyRuntimeState ceval.gil"],
    "interp_next": ["_is next"],
    "interp_threads": ["_is threads.head", "_is tstate_head"],
    "interp_modules": ["_is imports.modules", "_is modules"],
    "interp_sysdict": ["_is sysdict"],
    "interp_gil": ["_is ceval.gil"],
    "gil_holder": ["_gil_runtime_state last_holder"],
    "gil_locked": ["_gil_runtime_state locked"],
    "thread_next": ["_ts next"],
    "thread_interp": ["_ts interp"],
    "thread_frame": ["_ts frame"],
    "thread_cframe": ["_ts cframe"],
    "thread_current_frame": ["_ts current_frame"],
    "thread_ident": ["_ts thread_id"],
    "thread_native_id": ["_ts native_thread_id"],
    "thread_exc_info": ["_ts exc_info"],
    "thread_raised": ["_ts current_exception", "_ts curexc_value"],
    "thread_raised_type": ["_ts curexc_type"],
    "thread_raised_traceback": ["_ts curexc_traceback"],
    "cframe_current_frame": ["_PyCFrame current_frame"],
    "handled_value": ["_err_stackitem exc_value"],
    "handled_previous": ["_err_stackitem previous_item"],
    "frame_back": ["_frame f_back"],
    "frame_code": ["_frame f_code"],
    "frame_lasti": ["_frame f_lasti"],
    "frame_locals": ["_frame f_localsplus"],
    "frame_iframe": ["_frame f_frame"],
    "iframe_code": ["_PyInterpreterFrame f_executable", "_PyInterpreterFrame f_code"],
    "iframe_previous": ["_PyInterpreterFrame previous"],
    "iframe_instr": ["_PyInterpreterFrame instr_ptr", "_PyInterpreterFrame prev_instr"],
    "iframe_locals": ["_PyInterpreterFrame localsplus"],
    "iframe_owner": ["_PyInterpreterFrame owner"],
    "iframe_is_entry": ["_PyInterpreterFrame is_entry"],
    "code_file": ["PyCodeObject co_filename"],
    "code_name": ["PyCodeObject co_name"],
    "code_qualname": ["PyCodeObject co_qualname"],
    "code_first_line": ["PyCodeObject co_firstlineno"],
    "code_lines": ["PyCodeObject co_linetable", "PyCodeObject co_lnotab"],
    "code_instructions": ["PyCodeObject co_code_adaptive"],
    "code_names": ["PyCodeObject co_localsplusnames", "PyCodeObject co_varnames"],
    "code_kinds": ["PyCodeObject co_localspluskinds"],
    "code_cells": ["PyCodeObject co_cellvars"],
    "code_free": ["PyCodeObject co_freevars"],
    "code_first_traceable": ["PyCodeObject _co_firsttraceable"],
    "code_slots": ["PyCodeObject co_nlocalsplus"],
    "code_exception_table": ["PyCodeObject co_exceptiontable"],
    "frame_block_count": ["_frame f_iblock"],
    "frame_blocks": ["_frame f_blockstack"],
    "frame_value_stack": ["_frame f_valuestack"],
    "exception_args": ["PyBaseExceptionObject args"],
    "exception_traceback": ["PyBaseExceptionObject traceback"],
    "exception_context": ["PyBaseExceptionObject context"],
    "exception_cause": ["PyBaseExceptionObject cause"],
    "exception_suppress": ["PyBaseExceptionObject suppress_context"],
    "os_errno": ["PyOSErrorObject myerrno"],
    "os_strerror": ["PyOSErrorObject strerror"],
    "os_filename": ["PyOSErrorObject filename"],
    "os_filename2": ["PyOSErrorObject filename2"],
    "traceback_next": ["PyTracebackObject tb_next"],
    "traceback_frame": ["PyTracebackObject tb_frame"],
    "traceback_lasti": ["PyTracebackObject tb_lasti"],
    "traceback_line": ["PyTracebackObject tb_lineno"],
    "type_name": ["PyTypeObject tp_name"],
    "type_basic_size": ["PyTypeObject tp_basicsize"],
    "type_flags": ["PyTypeObject tp_flags"],
    "type_base": ["PyTypeObject tp_base"],
    "type_dict": ["PyTypeObject tp_dict"],
    "type_dict_offset": ["PyTypeObject tp_dictoffset"],
    "type_qualname": ["PyHeapTypeObject ht_qualname"],
    "type_cached_keys": ["PyHeapTypeObject ht_cached_keys"],
    "text_length": ["PyASCIIObject length"],
    "text_state": ["PyASCIIObject state"],
    "text_ascii": ["sizeof PyASCIIObject"],
    "text_compact": ["sizeof PyCompactUnicodeObject"],
    "text_data": ["PyUnicodeObject data"],
    "bytes_data": ["PyBytesObject ob_sval"],
    "tuple_items": ["PyTupleObject ob_item"],
    "list_items": ["PyListObject ob_item"],
    "float_value": ["PyFloatObject ob_fval"],
    "int_size": ["PyLongObject long_value.lv_tag", "PyVarObject ob_size"],
    "int_digits": ["PyLongObject long_value.ob_digit", "PyLongObject ob_digit"],
    "set_used": ["PySetObject used"],
    "cell_value": ["PyCellObject ob_ref"],
    "dict_used": ["PyDictObject ma_used"],
    "dict_keys": ["PyDictObject ma_keys"],
    "dict_values": ["PyDictObject ma_values"],
    "keys_log2_size": ["_dictkeysobject dk_log2_size"],
    "keys_size": ["_dictkeysobject dk_size"],
    "keys_log2_bytes": ["_dictkeysobject dk_log2_index_bytes"],
    "keys_kind": ["_dictkeysobject dk_kind"],
    "keys_entries": ["_dictkeysobject dk_nentries"],
    "keys_indices": ["_dictkeysobject dk_indices"],
    "values_items": ["_dictvalues values"],
    "values_valid": ["_dictvalues valid"],
}  # fmt: skip

# Runs inside gdb; FIELDS comes in front of it.
IN_GDB = r"""
import gdb, json

def find_type(name):
    for form in ("struct " + name, name):
        try:
            found = gdb.lookup_type(form).strip_typedefs()
        except gdb.error:
            continue
        if found.code == gdb.TYPE_CODE_STRUCT and found.fields():
            return found
    return None

def offset(place):
    name, _, path = place.partition(" ")
    if name == "sizeof":
        found = find_type(path)
        return None if found is None else found.sizeof
    kind, total = find_type(name), 0
    for part in path.split("."):
        if kind is None or kind.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            return None
        field = next((f for f in kind.fields() if f.name == part), None)
        if field is None:
            return None
        total += field.bitpos // 8
        kind = field.type.strip_typedefs()
    return total

rows = {}
for name, places in FIELDS.items():
    found = [value for value in map(offset, places) if value is not None]
    if found:
        rows[name] = found[0]
print("ROWS " + json.dumps(rows))
"""

HEADER = """\
// Generated by generate.py from the DWARF of these interpreters; do not edit.
#include "cpython/offsets/tables.h"

namespace pm::cpython {
namespace {

// clang-format off
constexpr Table kTables[] = {
"""
FOOTER = """\
};
// clang-format on

}  // namespace

std::span<const Table> tables() noexcept { return kTables; }

}  // namespace pm::cpython
"""


def binary_with_types(python: Path) -> Path:
    """Return the file that has the interpreter's DWARF: libpython for a shared build."""
    code = (
        "import sysconfig as s; v = s.get_config_var;"
        "print(v('LIBDIR') + '/' + v('LDLIBRARY') if v('Py_ENABLE_SHARED') else '')"
    )
    library = subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()
    return Path(library) if library else python.resolve()


def read_rows(gdb: str, binary: Path) -> dict[str, int]:
    script = f"FIELDS = {FIELDS!r}\n{IN_GDB}"
    done = subprocess.run(
        [gdb, "-nx", "-batch", "-ex", "python exec(open('/dev/stdin').read())", str(binary)],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("ROWS "):
            rows: dict[str, int] = json.loads(line[5:])
            if "code_file" not in rows:
                break
            return rows
    raise SystemExit(f"{binary}: no type information was read\n{done.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gdb", default="gdb")
    parser.add_argument("pythons", nargs="+", type=Path, metavar="PYTHON")
    options = parser.parse_args()
    tables: list[tuple[int, str]] = []
    for python in options.pythons:
        version = int(
            subprocess.run(
                [python, "-c", "import sys; print(sys.hexversion)"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        rows = read_rows(options.gdb, binary_with_types(python))
        parts = [f".{name} = {rows[name]}," for name in FIELDS if name in rows]
        fields = textwrap.fill(
            " ".join(parts).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"),
            width=98,
            initial_indent="      ",
            subsequent_indent="      ",
        ).replace("\N{NO-BREAK SPACE}", " ")
        label = f"{version >> 24}.{version >> 16 & 255}.{version >> 8 & 255}"
        tables.append(
            (version, f"    {{{{0x{version:08x}}}, {{  // {label}\n{fields}\n    }}}},\n")
        )
    sys.stdout.write(HEADER + "".join(text for _, text in sorted(tables)) + FOOTER)


if __name__ == "__main__":
    main()
