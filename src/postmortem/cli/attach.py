"""``postmortem attach``: the terminal of a breakpoint that waits on a rank."""

import argparse
import sys

from postmortem.cli.arguments import adding, number

SUMMARY = "connect this terminal to a breakpoint that waits on a rank"
EXAMPLES = """\
examples:
  postmortem attach
  postmortem attach --rank 3 --wait 600
  postmortem attach 10.0.0.7:40123
  ssh -t node3 postmortem attach

The program calls postmortem.breakpoint_on_rank(3), and rank 3 prints its address. Without
ADDRESS the breakpoint of yours that waits on this host is taken. Ctrl-C goes to the rank; Ctrl-]
leaves, and the program goes on, as it does when the connection breaks.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "address ADDRESS",
        "HOST:PORT that the rank printed (default: the one that waits on this host)",
        nargs="?",
    )
    add("--rank N", "the breakpoint of rank N (default: any)", type=int)
    add("--job ID", "a breakpoint of this job: SLURM's number, torchrun's --rdzv-id (default: any)")
    add(
        "--wait S",
        "wait this many seconds for a breakpoint (default: 0)",
        type=number(0, 86_400 * 7),
        default=0.0,
    )
    add("--list", "list the waiting breakpoints, and connect to none")


def run(args: argparse.Namespace) -> int:
    """Connect, and be the terminal until the breakpoint ends."""
    from postmortem.breakpoints import client
    from postmortem.render.safe import line

    if args.list:
        for one in client.waiting():
            print(line(f"{one.address}  {one.words}"))
        return 0
    address, token, words = client.choose(args.address, args.rank, args.job, args.wait)
    link = client.connect(address, token)
    print(f"postmortem: attached to {line(words)}; Ctrl-] leaves", file=sys.stderr)
    last = client.converse(link)
    if last is None:
        print("postmortem: the connection has ended, as has the breakpoint", file=sys.stderr)
        return 3
    print(line(last), file=sys.stderr)
    return 0
