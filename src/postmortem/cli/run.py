"""``postmortem run``: run a command so that its failure leaves evidence, and explain it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.cli.arguments import adding, behind_dashes, number, size_in_bytes, whole
from postmortem.cli.output import OutputError
from postmortem.errors import Refusal

if TYPE_CHECKING:
    from postmortem.run.options import RunOptions

SUMMARY = "run a command so that a failure leaves evidence, and explain it"
EXAMPLES = """\
examples:
  postmortem run -- torchrun --nproc-per-node 8 train.py
  postmortem run --timeout 3600 -- srun python train.py
  postmortem run --repeat 20 -- python flaky.py
  postmortem run --strace ENOSPC -- python save.py

The command's input, output, terminal, signals and exit status are its own (128 + N where signal N
ended it). Nothing is left of a command that does not fail.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.usage = "postmortem run [options] -- CMD [ARGS...]"
    add = adding(parser)
    add("words CMD", "what to run", nargs=argparse.REMAINDER)
    add(
        "--timeout S",
        "after S seconds say where everyone stands, then end it: SIGTERM, 10 s later SIGKILL",
        type=number(0, 10_000_000, above=True),
    )
    add(
        "--memory SIZE",
        "the memory that it and all it starts may use: 512M, 100G (a control group, or "
        "systemd-run; refused where there is neither)",
        type=size_in_bytes,
    )
    add(
        "--repeat N",
        "run it N times; failures that are alike are one row, with their rate",
        type=whole(1, 1_000_000, "a number of runs"),
        default=1,
    )
    add("--fresh DIR", "empty this folder before each run", type=Path)
    add("--sync", "when it fails, run it again with CUDA_LAUNCH_BLOCKING=1 and compare")
    add("--cpu", "when it fails, run it again with the GPUs hidden and compare")
    add(
        "--numerics",
        "watch the first model that each Python process trains with PyTorch, and stop where "
        "NaN or Inf come up first",
    )
    add(
        "--strace QUERY",
        "record system calls, the least that answers QUERY (as strace --find has it), and "
        "explain them when it fails",
        nargs="?",
        const="",
        type=_query,
    )
    add(
        "--keep-output",
        "keep the last MiB of what goes to a terminal or a pipe as evidence, too: a "
        "process stands between the two (default: only what goes to a file)",
    )
    add("--into DIR", "where the folder with the evidence is made (default: here)", type=Path)
    add("--pack", "make a .tar.gz of that folder, too, to be sent")
    add("--no-redact", "keep values that look secret in the evidence (default: masked)")


def run(args: argparse.Namespace) -> int:
    """Run the command and return its status."""
    command = behind_dashes(args)
    from postmortem.records import of_row
    from postmortem.run.options import RunOptions

    options = of_row(RunOptions, vars(args), command=tuple(command), redact=not args.no_redact)
    refusal = _refusal(options)
    if refusal is not None:
        raise Refusal(refusal)
    from postmortem.run.memory import MemoryLimit, NoLimit, limit_memory
    from postmortem.run.nested import become_if_nested
    from postmortem.run.several import run_all

    become_if_nested(options)
    limit: MemoryLimit | None = None
    try:
        if options.memory is not None:
            limit = limit_memory(options.memory)
        return run_all(options, limit)
    except NoLimit as error:
        raise OutputError("--memory", f"this machine offers no way to limit it ({error})") from None
    finally:
        if limit is not None:
            limit.remove()


def _refusal(options: RunOptions) -> str | None:
    """Return why the options cannot be followed, before anything is started."""
    if options.fresh is not None:
        folder = options.fresh.resolve()
        if folder in (Path("/"), Path.home(), *Path.cwd().parents, Path.cwd()):
            return f"--fresh {options.fresh}: is not emptied, for this is run in it"
        if folder.exists() and not folder.is_dir():
            return f"--fresh {options.fresh}: is not a folder"
    if options.strace is not None:
        import shutil

        if shutil.which("strace") is None:
            return "--strace: there is no strace on PATH; apt install strace"
    if options.sync:
        from postmortem.run.several import refuse_sync

        return refuse_sync()
    if options.into is not None and options.into.exists() and not options.into.is_dir():
        return f"--into {options.into}: is not a folder"
    return None


def _query(text: str) -> str:
    from postmortem.facts.call_query import parse

    if text:
        try:
            parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text
