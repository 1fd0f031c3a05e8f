"""``postmortem core CORE --open-gdb``: gdb's own prompt, on the frame that is blamed."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from postmortem.errors import EvidenceError

_CITED = re.compile(r"thread (\d+) frame (\d+)$")


def become_gdb(args: argparse.Namespace) -> NoReturn:
    """Explain the core, then be gdb; raises EvidenceError where there is nothing to open."""
    from postmortem.readers.core_reading import choose_core
    from postmortem.readers.formats import HEAD_BYTES, compression_of
    from postmortem.readers.gdb.find import find_gdb
    from postmortem.readers.gdb.launch import without_python
    from postmortem.readers.regular import open_regular
    from postmortem.render.safe import line

    core, _ = choose_core(args.core)
    with open_regular(core) as stream:
        packing = compression_of(stream.read(HEAD_BYTES))
    if packing is not None:
        raise EvidenceError(str(core), f"is packed ({packing}), and gdb reads plain cores alone")
    gdb = find_gdb(args.gdb)
    report = _report(args, str(core))
    executable = str(args.python or report["process"]["executable"] or "")
    frame = blamed(report)
    script = _script(frame)
    descriptor = os.memfd_create("postmortem-gdb", 0)
    os.write(descriptor, script.encode())
    words = [*gdb.start, "-q"]
    if args.sysroot is not None:
        words += ["-iex", f"set sysroot {args.sysroot}"]
    words += ["-x", f"/proc/self/fd/{descriptor}"]
    if executable:
        words += ["-s", executable, "-e", executable]
    words += ["-c", str(core)]
    print(f"postmortem: {line(report['verdict'])}", file=sys.stderr)
    if frame is not None:
        at = f"{frame['function']} ({os.path.basename(frame['module'] or '?')})"  # noqa: PTH119
        print(f"postmortem: gdb is on the frame of {line(at)}", file=sys.stderr, flush=True)
    os.execvpe(words[0], words, without_python(os.environ))


def blamed(report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the native frame of the crashed thread that the diagnoses speak of.

    Of those that they cite the first that is not the C library's; None where there is no stack.
    """
    from postmortem.diagnose.core.owners import Owner, module_owner

    tid = report["crashed_thread"]
    rows = [one["frames"] for one in report["threads"] if one["tid"] == tid]
    frames = rows[0] if rows else []
    cited = [
        frames[int(match[2])]
        for diagnosis in report["diagnoses"]
        for evidence in diagnosis["evidence"]
        if (match := _CITED.match(evidence["where"]))
        and int(match[1]) == tid
        and int(match[2]) < len(frames)
    ]
    native = [one for one in (*cited, *frames) if one["kind"] == "native" and one["pc"]]
    # The C library's functions only do what their callers ask for.
    own = (one for one in native if module_owner(one["module"] or "") is not Owner.GLIBC)
    return next(own, native[0] if native else None)


def _script(frame: Mapping[str, Any] | None) -> str:
    """Return gdb's commands that go up to a frame; gdb stays where it is if it has none such."""
    lines = ["set pagination off", "set $postmortem = 0"]
    if frame is not None:
        pc = int(frame["pc"], 16)
        # A caller's place is where it goes on; some readers say the byte before.
        lines += [
            f"while $postmortem < 256 && ($pc < {pc - 1:#x} || $pc > {pc + 1:#x})",
            "  set $postmortem = $postmortem + 1",
            "  up-silently",
            "end",
        ]
    return "\n".join([*lines, "frame", "set pagination on", ""])


def _report(args: argparse.Namespace, core: str) -> Mapping[str, Any]:
    """Return the report on a core, made in a process of its own as always."""
    words = [sys.executable, "-m", "postmortem", "core", core, "--engine", "native", "--json"]
    for name in ("python", "sysroot", "temp_dir"):
        value = getattr(args, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, errors="replace", check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.returncode)
    report: Mapping[str, Any] = json.loads(done.stdout)
    if report["kind"] != "core":
        raise EvidenceError(core, "gdb does not read cores of this kind")
    return report
