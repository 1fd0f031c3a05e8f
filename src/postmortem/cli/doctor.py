"""``postmortem doctor``: what this machine lacks for good evidence, and how to get it."""

import argparse
import sys

from postmortem.cli import output
from postmortem.cli.arguments import adding

SUMMARY = "say what this machine lacks for good evidence, or whether its hardware fails"
EXAMPLES = """\
examples:
  postmortem doctor
  postmortem doctor --fix
  postmortem doctor --host --gpu --json -o before.json    # at the start of a job
  postmortem doctor --host --gpu --since before.json      # at its end: what grew
  postmortem doctor smi-before.txt smi-after.txt dcgmi.txt

It ends with 1 where a crash would leave no core to explain, or where hardware fails.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "files FILE",
        "instead read what nvidia-smi -q, -q -x, nvlink -e, dcgmi, df, or sinfo "
        "and its like printed into files, on any machine; of several from one machine, what grew",
        nargs="*",
    )
    add("--gdb PATH", "check this gdb (default: $POSTMORTEM_GDB, then PATH, then the wheel)")
    add(
        "--fix",
        "first mend what decides whether a crash leaves a core: limit and coredump_filter of "
        "the shell that called, a core_pattern that leads nowhere; each step is shown",
    )
    add(
        "--host",
        "instead look at the host's hardware: memory (EDAC), PCIe, disks, file systems, "
        "fabric, clock, kernel log",
    )
    add(
        "--gpu",
        "instead, or with --host, look at its GPUs: ECC, remapped rows, Xids, PCIe, "
        "throttling, NVLink (nvidia-smi, sysfs)",
    )
    add("--since FILE", "with --host or --gpu: what grew since an earlier report (--json -o FILE)")
    output.add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Look at this machine, write the report, return the exit code."""
    from postmortem.analyses import doctor, health

    if args.files:
        if args.fix or args.gdb or args.host or args.gpu or args.since:
            args.parser.error("FILE goes with none of --fix, --gdb, --host, --gpu and --since")
        return output.emit(health.analyse_files(args.files), args)
    if args.host or args.gpu:
        if args.fix or args.gdb:
            args.parser.error("--fix and --gdb do not go with --host and --gpu")
        return output.emit(health.analyse(host=args.host, gpu=args.gpu, since=args.since), args)
    if args.since:
        args.parser.error("--since needs --host or --gpu")
    if args.fix:
        _fix(args.gdb)
    return output.emit(doctor.analyse(gdb=args.gdb), args)


def _fix(gdb: str | None) -> None:
    from postmortem.analyses.mending import mend
    from postmortem.readers.machine import read_machine

    steps = mend(read_machine(gdb=gdb))
    for step in steps:
        done = "mended" if step.problem is None else f"not mended ({step.problem})"
        sys.stderr.write(f"postmortem: {done}: {step.name}: {step.what}\n")
    if not steps:
        sys.stderr.write("postmortem: nothing that --fix may change stands in the way of a core\n")
