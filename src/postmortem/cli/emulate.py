"""``postmortem emulate``: run a command under one fault, to see what it does and what is told."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from postmortem.cli.arguments import adding, number, signal_number, size_in_bytes, whole
from postmortem.cli.parser import Parser

if TYPE_CHECKING:
    from postmortem.emulate.fault import Fault

SUMMARY = "run a command under one fault, such as a full disk or a killed rank"
EXAMPLES = """\
kinds (postmortem emulate KIND --help tells more):
  disk PATH          a folder that is full, or read-only
  shm SIZE           a small /dev/shm
  memory SIZE        little memory
  fd N               few open files
  kill WHO           a signal to a rank, or to the command, after some time
  slow WHO           a rank that runs part of the time
  net                a network that is slow, loses packets, or is cut
  nan MODULE         NaN in the output of a module of PyTorch, at a step
  clock SECONDS      clocks that are off
  gpu                a GPU whose memory is taken

examples:
  postmortem emulate disk /data --leave 10M -- python save.py
  postmortem emulate kill 1 --after 30 -- torchrun --nproc-per-node 4 train.py
  postmortem emulate nan layers.3.mlp --step 5 -- python train.py

The command's input, output, terminal, signals and exit status are its own (128 + N where signal N
ended it). What is changed is changed for it alone and ends with it, also when we are killed. Where
this machine cannot do it the exit status is 3, and nothing was started.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is left to the parsers of the kinds: all of it stands before a ``--``."""
    parser.usage = "postmortem emulate KIND [options] -- CMD [ARGS...]"
    parser.add_argument(
        "words",
        metavar="KIND ... CMD",
        nargs=argparse.REMAINDER,
        help="the fault, and behind -- what to run",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command and return its status."""
    words, command = args.words, []
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
    parser = parser_of_kinds()
    named = parser.parse_args(words)
    if named.kind is None:
        parser.error("name a kind of fault")
    if not command:
        parser.error(f"name a command: postmortem emulate {named.kind} ... -- CMD [ARGS...]")
    from postmortem.emulate.fault import CannotEmulate
    from postmortem.emulate.running import run_under

    try:
        return run_under(_fault(named), command)
    except CannotEmulate as error:
        raise CannotEmulate(f"emulate {named.kind}: {error}") from None


def parser_of_kinds() -> argparse.ArgumentParser:
    parser = Parser(
        prog="postmortem emulate",
        usage="postmortem emulate KIND [options] -- CMD [ARGS...]",
        allow_abbrev=False,
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", prog="postmortem emulate")

    def kind(name: str, usage: str, what: str) -> Callable[..., argparse.Action]:
        usage = f"postmortem emulate {name} {usage} -- CMD [ARGS...]"
        made = kinds.add_parser(name, usage=usage, description=what, allow_abbrev=False)
        return adding(made)

    disk = kind(
        "disk",
        "PATH [--leave SIZE | --read-only]",
        "A folder that is full or read-only. "
        "Its contents stay visible; what is written to it is kept in memory and dropped at "
        "the end.",
    )
    disk("path PATH", "a folder")
    in_how = adding(kinds.choices["disk"].add_mutually_exclusive_group())
    in_how("--leave SIZE", "room for this much: 512K, 10M (default: none)", type=_bytes, default=0)
    in_how("--read-only", "nothing can be written")
    in_how("--slow", "not possible: prints why")
    disk("--empty", "hide what is in it (needs no overlay file system)")

    shm = kind("shm", "SIZE", "A small, empty /dev/shm.")
    shm("size SIZE", "512K, 64M", type=_bytes)

    memory = kind("memory", "SIZE", "Little memory, for the command and all that it starts.")
    memory("size SIZE", "512M, 4G", type=size_in_bytes)
    memory(
        "--addresses",
        "limit the addresses of each process (RLIMIT_AS), as is done where "
        "there is no control group: allocations fail, nothing is killed",
    )

    fd = kind("fd", "N", "Few open files for each process (RLIMIT_NOFILE).")
    fd(
        "count N",
        "how many, with 0, 1 and 2",
        type=whole(4, 1_000_000, "a number of files, 4 or more"),
    )

    kill = kind("kill", "WHO [--after S] [--signal NAME]", "A rank that dies of a signal.")
    slow = kind("slow", "WHO [--factor X] [--after S]", "A rank that is slower than the others.")
    for one in (kill, slow):
        one("who WHO", "a rank, or 'command'", type=_who)
        one(
            "--after S",
            "seconds from when it is seen first (default: 0)",
            type=_seconds,
            default=0.0,
        )
    kill(
        "--signal NAME", "KILL, SEGV, TERM, ... (default: KILL)", type=signal_number, default="KILL"
    )

    slow(
        "--factor X",
        "how many times slower (default: 4)",
        type=number(1.1, 100, "a number from 1.1 to 100"),
        default=4.0,
    )

    net = kind(
        "net",
        "[--delay MS] [--loss PERCENT] [--rate RATE] [--cut-after S]",
        "A network namespace with a loopback of this quality, and nothing else: for a job "
        "of one host.",
    )
    net("--delay MS", "milliseconds for each packet", type=_seconds)
    net("--loss PERCENT", "packets that are lost", type=_percent)
    net("--rate SIZE", "bytes a second: 1M", type=_bytes)
    net("--cut-after S", "no packet after S seconds", type=_seconds)
    net(
        "--to-port PORT",
        "one direction: only packets to this TCP or UDP port",
        type=whole(1, 65535, "a port"),
    )

    nan = kind(
        "nan",
        "MODULE [--step N] [--rank R]",
        "NaN in the first element of what a module of PyTorch returns.",
    )
    nan("module MODULE", "as in named_modules(): layers.3.mlp")
    nan("--step N", "in which call of it, from 0 (default: 0)", type=_count, default=0)
    nan("--rank R", "on this rank alone", type=_count)

    clock = kind("clock", "SECONDS", "The monotonic and the boot clock are off.")
    clock("offset SECONDS", "how much ahead", type=number(-4e9, 4e9))
    clock("--realtime", "not possible: prints why")

    kind("gpu", "", "A GPU whose memory is taken by another.")
    return parser


def _fault(named: argparse.Namespace) -> Fault:
    """Return the fault that is asked for; raises CannotEmulate where it is none that can be."""
    from postmortem.emulate import clock, descriptors, disk, gpu, kill, memory, nan, net, shm, slow

    match named.kind:
        case "disk":
            how = {"read_only": named.read_only, "empty": named.empty, "slow": named.slow}
            return disk.Disk(named.path, named.leave, **how)
        case "shm":
            return shm.Shm(named.size)
        case "memory":
            return memory.Memory(named.size, addresses=named.addresses)
        case "fd":
            return descriptors.Descriptors(named.count)
        case "kill":
            return kill.Kill(named.who, named.after, named.signal)
        case "slow":
            return slow.Slow(named.who, named.factor, named.after)
        case "net":
            quality = {"delay_ms": named.delay, "loss": named.loss, "rate": named.rate}
            return net.Net(**quality, cut_after=named.cut_after, to_port=named.to_port)
        case "nan":
            return nan.Nan(named.module, named.step, named.rank)
        case "clock":
            return clock.Clock(named.offset, realtime=named.realtime)
    raise gpu.refuse()


_count = whole(0, 1_000_000_000, "a number")
_seconds = number(0, 10_000_000, "a number that is not negative")
_rank = whole(0, 999_999_999, "a rank, or 'command'")


def _percent(text: str) -> float:
    return number(0.001, 100, "a number of percent")(text.removesuffix("%"))


def _who(text: str) -> int | None:
    return None if text == "command" else _rank(text)


def _bytes(text: str) -> int:
    """Return a size that may be small; it is kept in memory, so a large one makes no sense."""
    size = size_in_bytes(text, least=1)
    if size > 1 << 40:
        raise argparse.ArgumentTypeError(f"{text!r} is more than 1T")
    return size
