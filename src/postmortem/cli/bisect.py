"""``postmortem bisect``: which commit brought one failure, whatever else fails on the way."""

import argparse

from postmortem.cli.arguments import adding, behind_dashes, number, whole

SUMMARY = "find the commit that brought a failure; other failures do not mislead it"
EXAMPLES = """\
examples:
  postmortem bisect --good v1.4 -- python train.py --steps 3
  postmortem bisect --good v1.4 --bad main --repeat 5 -- pytest -q tests/test_x.py
  postmortem bisect -- python train.py --steps 3        goes on where one was interrupted

A commit is bad if CMD fails with this signature, good if it ends with 0, and skipped if it fails in
another way. The signature is that of the failure at --bad, or what run --repeat shows. Files that
are not committed stop it before it begins. `git bisect reset` brings the commit back that was
checked out before.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.usage = "postmortem bisect [options] -- CMD [ARGS...]"
    add = adding(parser)
    add("words CMD", "what to run", nargs=argparse.REMAINDER)
    add("--good REV", "a commit without the failure")
    add("--bad REV", "a commit with it (default: HEAD)")
    add(
        "--signature HASH", "the failure that is looked for (default: what CMD fails with at --bad)"
    )
    add(
        "--repeat N",
        "run CMD so often before a commit counts as good, for a failure that does not always "
        "come (default: 1)",
        type=whole(1, 10_000, "a number of runs"),
        default=1,
    )
    add(
        "--timeout S",
        "end a run after S seconds: it failed then",
        type=number(0, 10_000_000, above=True),
    )
    add("--step", argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Bisect; or, as git's step, tell of one commit."""
    command = behind_dashes(args)
    from postmortem.run import bisecting
    from postmortem.run.options import RunOptions

    options = RunOptions(command=tuple(command), timeout=args.timeout, repeat=args.repeat)
    if args.step:
        return bisecting.step(options, args.signature)
    return bisecting.bisect(options, good=args.good, bad=args.bad, signature=args.signature)
