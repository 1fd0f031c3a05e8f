"""``postmortem net``: which pair of nodes cannot talk, at which stage, and why."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from postmortem.cli.arguments import adding, interruptible, seconds, whole
from postmortem.cli.output import add_report_options, emit
from postmortem.cli.parser import Parser
from postmortem.errors import Refusal

if TYPE_CHECKING:
    from postmortem.net.place import Place

SUMMARY = "tell which nodes cannot talk with each other, at which stage, and why"
EXAMPLES = """\
examples:
  postmortem net                                  names and interfaces of this node
  postmortem net check node1:29500                run it on node1 too: it listens there
  srun --ntasks-per-node=1 postmortem net         all nodes of a job, all pairs
  postmortem net --nodes 2 --node 0 --master 10.0.0.1:6000 --token x      on the first node
  postmortem net --nodes 2 --node 1 --master 10.0.0.1:6000 --token x      on the second

Names, interfaces, the port of the first node, all pairs both ways with small and full packets,
throughput, then an all-reduce of PyTorch with gloo where it is installed. Node 0 has the report;
the others exit with its status. A node that does not reach node 0 says itself why.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add("what", "try one port alone", nargs="?", choices=("check",))
    add("place HOST:PORT", "of check", nargs="?")
    meeting = parser.add_argument_group("nodes (default: what the launcher's variables say)")
    in_meeting = adding(meeting)
    in_meeting("-w --hosts HOSTS", "run it on these: as postmortem fleet -w HOSTS net")
    in_meeting("--job ID", "run it on all nodes of a job of SLURM")
    in_meeting("--nodes N", "how many nodes there are", type=whole(1, 100_000))
    in_meeting(
        "--node I", "which one this is, from 0", type=whole(0, 9_999_999, "the number of a node")
    )
    in_meeting(
        "--master HOST[:PORT]",
        "where they meet: the first node (default: MASTER_ADDR and MASTER_PORT, or SLURM's "
        "first node and 29500)",
    )
    in_meeting(
        "--token WORD",
        "the same on all nodes: others are not let in; processes of this host see it "
        "(default: POSTMORTEM_NET_TOKEN, or the id of the job, which is not a secret)",
    )
    add("--timeout S", "seconds for each step of each try (default: 3)", type=seconds, default=3.0)
    add("--wait S", "seconds to wait for the others (default: 60; check: 10)", type=seconds)
    add("--no-speed", "measure no throughput")
    add("--no-torch", "no all-reduce of PyTorch")
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Try, and write the report."""
    with interruptible():
        if args.what is not None:
            return _check(args)
        if args.hosts is not None or args.job is not None:
            return _of_fleet(args)
        from postmortem.net.place import find_place

        try:
            place = find_place(args.node, args.nodes, args.master, args.token)
        except ValueError as error:
            raise Refusal(str(error)) from None
        return _alone(args) if place is None or place.world == 1 else _meet(args, place)


def _of_fleet(args: argparse.Namespace) -> int:
    from postmortem.cli import fleet

    if args.nodes is not None or args.node is not None:
        args.parser.error("-w and --job say which nodes: no --nodes, no --node")
    valued = ("master", "timeout", "wait")
    words = [f"--{name}={value}" for name in valued if (value := getattr(args, name)) is not None]
    words += [f"--no-{name}" for name in ("speed", "torch") if getattr(args, f"no_{name}")]
    parser = Parser(args.parser.prog)
    fleet.add_arguments(parser)
    return fleet.run(parser.parse_args(["net", *words], args))


def _check(args: argparse.Namespace) -> int:
    from postmortem.analyses.net import report_on
    from postmortem.net.place import split_place
    from postmortem.net.running import check_port

    if args.place is None:
        args.parser.error("check: give HOST:PORT")
    try:
        host, port = split_place(args.place)
        if port is None:
            raise ValueError(f"{args.place!r} has no port; give HOST:PORT")
    except ValueError as error:
        return args.parser.error(str(error))  # type: ignore[no-any-return]
    token = args.token or "check"
    return emit(report_on(check_port(host, port, token, args.timeout, args.wait or 10.0)), args)


def _alone(args: argparse.Namespace) -> int:
    from postmortem.analyses.net import report_on
    from postmortem.facts.net import NetCheck
    from postmortem.net.local import this_node

    return emit(report_on(NetCheck(1, (this_node(0, None),))), args)


def _meet(args: argparse.Namespace, place: Place) -> int:
    from postmortem.analyses.net import report_on
    from postmortem.facts.net import NetCheck
    from postmortem.facts.source import Problem
    from postmortem.net.member import Meeting, Refused
    from postmortem.net.running import Options, meet
    from postmortem.report.model import Report
    from postmortem.report.redact import Redactor

    if not place.takes_part:
        return 0  # one process of a node is enough
    reports: list[Report] = []

    def judge(seen: NetCheck, problems: tuple[Problem, ...]) -> tuple[int, str]:
        reports.append(Redactor().report(report_on(seen, problems)))
        return int(reports[0].failed), reports[0].verdict

    wait = args.wait or 60.0
    meeting = Meeting(
        place.host, place.port, place.number, place.world, place.token, args.timeout, wait
    )
    options = Options(speed=not args.no_speed, torch=not args.no_torch)
    try:
        ended = meet(meeting, options, _say if sys.stderr.isatty() else _quiet, judge)
    except Refused as error:
        what = f"node 0 at {place.host}:{place.port} does not take node {place.number}: {error}"
        raise Refusal(what) from None
    if reports:
        return emit(reports[0], args)
    if ended.code is None:
        return emit(report_on(ended.check), args)
    from postmortem.render.safe import line

    print(f"postmortem net: node {place.number}: {line(ended.verdict)}", file=sys.stderr)
    return 0 if args.exit_zero else ended.code


def _say(words: str) -> None:
    print(f"postmortem net: {words}", file=sys.stderr, flush=True)


def _quiet(words: str) -> None:
    """Say nothing: the report has it."""
