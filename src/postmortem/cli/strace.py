"""``postmortem strace``: explain system-call logs."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from postmortem.cli.output import add_report_options, emit

if TYPE_CHECKING:
    from postmortem.analyses.straceask import Query

SUMMARY = "explain strace logs: which file was it, what ended the program"
EXAMPLES = """\
examples:
  postmortem strace strace.txt --find ENOSPC
  postmortem strace strace.txt
  zcat strace.txt.gz | postmortem strace - --find "EACCES path=/data/*"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="*",
        help="a log of strace, also packed (.gz, .zst, .xz); the prefix given to strace -ff; a "
        "folder with logs; or - for standard input",
    )
    parser.add_argument(
        "--find",
        metavar="QUERY",
        action="append",
        default=[],
        type=_query,
        help="answer only this: an errno (ENOSPC), a system call (openat), a signal (SIGKILL), "
        "several with commas; or terms that must all hold: errno=, syscall=, path=GLOB, pid=, fd=, "
        "slower=SECONDS "
        "(default: the whole summary)",
    )
    parser.add_argument(
        "--pid",
        type=int,
        metavar="PID",
        help="answer for this process and its threads alone",
    )
    parser.add_argument(
        "--record-hint",
        action="store_true",
        help="print the strace command that records enough, at the least cost, to follow files",
    )
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the logs and write the report, or say how to record one."""
    if args.record_hint:
        from postmortem.cli.output import write_text

        write_text(_record_hint() + "\n")
        return 0
    if not args.logs:
        print("postmortem strace: error: name a log, a folder with logs, or -", file=sys.stderr)
        return 2
    from dataclasses import replace

    from postmortem.analyses.strace import StraceOptions, analyse

    began = time.monotonic()
    options = StraceOptions(
        queries=tuple(args.find),
        process=args.pid,
        verbose=args.verbose,
        redact=not args.no_redact,
    )
    report = analyse(args.logs, options)
    took = time.monotonic() - began
    return emit(
        replace(report, footer=f"{took:.2f} s · {report.footer} · -v, --json for more"), args
    )


# What changes descriptors, folders and tasks, and what fails when a disk is full. The kernel's
# filter (--seccomp-bpf) lets all other calls run at full speed: with the opens, writes and forks
# of this list importing torch took 1.2 times as long, with all calls 3.5 times. ioctl is in it
# for FIONCLEX, by which Python makes descriptors inheritable.
_RECORDED = (
    "open,openat,openat2,creat,close,close_range,dup,dup2,dup3,fcntl,ioctl,pipe,pipe2,socketpair,"
    "socket,connect,bind,accept,accept4,memfd_create,"
    "write,pwrite64,writev,pwritev,pwritev2,sendfile,copy_file_range,splice,fallocate,ftruncate,"
    "fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,linkat,symlinkat,"
    "mmap,munmap,mremap,clone,clone3,fork,vfork,unshare,execve,execveat,exit_group,chdir,fchdir,getcwd,sendmsg,recvmsg,"
    "pidfd_open,pidfd_getfd,kill,tgkill"
)


def _record_hint() -> str:
    return f"strace -f --seccomp-bpf -ttt -T -e trace={_RECORDED} -o strace.txt COMMAND"


def _query(text: str) -> Query:
    from postmortem.analyses.straceask import parse

    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
