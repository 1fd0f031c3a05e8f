"""``postmortem demo``: crash a sample program for real and explain its core."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from postmortem.cli import core
from postmortem.cli.arguments import adding
from postmortem.demo import KINDS

SUMMARY = "crash a sample program for real and explain its core"
EXAMPLES = """\
example:
  postmortem demo
  postmortem demo bus --keep /tmp/crashes
"""


_OF_FILES = frozenset({"cores", "fold", "python", "sysroot", "slim", "pid", "temp_dir"})
"""What ``postmortem core`` asks about cores that lie somewhere; this one is made on the spot."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command: its own, and those of ``postmortem core`` that fit."""
    kinds = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    default = next(iter(KINDS))
    add = adding(parser)
    add(
        "kind KIND",
        f"what happens (default: {default}). {kinds}",
        nargs="?",
        choices=tuple(KINDS),
        default=default,
    )
    add(
        "--keep DIR",
        "keep the core in this folder, and the program below it (default: they are removed)",
        type=Path,
    )
    core.add_arguments(parser)
    for action in [action for action in parser._actions if action.dest in _OF_FILES]:
        parser.set_defaults(**{action.dest: action.default})
        parser._remove_action(action)
        for option in action.option_strings:
            del parser._option_string_actions[option]
        for group in parser._action_groups:
            if action in group._group_actions:
                group._group_actions.remove(action)


def run(args: argparse.Namespace) -> int:
    """Crash the sample program, then do what ``postmortem core`` does with its core."""
    from postmortem.demo.crashing import crash, program

    _say(f"running {program(args.kind)}, which will crash")
    with _work_folder(args.keep) as folder:
        crashed = crash(args.kind, folder, gdb=getattr(args, "gdb", None), say=_say)
        path = _kept(crashed.core, folder, args.keep, f"core.{args.kind}.{crashed.pid}")
        writer = "gdb wrote its core" if crashed.by_gdb else "its core is"
        size = path.stat().st_size
        _say(f"{writer} {path} ({size / (1 << 20):.1f} MiB); explaining it as postmortem core does")
        sys.stderr.flush()
        args.cores = [path]
        code = core.run(args)
        if args.keep is None and not path.is_relative_to(folder):
            _say(f"the core stays where the system keeps its cores: {path}")
    # the crash is what was asked for, so that it was found is no failure of the demo
    return 0 if code in (0, 1) else code


@contextlib.contextmanager
def _work_folder(keep: Path | None) -> Iterator[Path]:
    """Make a private folder to crash in; on the disk of `keep`, so that the core can be moved."""
    import tempfile  # not at the top: `postmortem --help` imports this module

    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="postmortem-demo-", dir=keep)).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="postmortem-demo-", dir=keep) as folder:
        yield Path(folder).resolve()


def _kept(core: Path, folder: Path, keep: Path | None, name: str) -> Path:
    """Put the core into the folder to keep it in, if there is one; returns where it is then."""
    if keep is None:
        return core
    target = keep / (name + "".join(s for s in core.suffixes if s in (".zst", ".lz4", ".xz")))
    if core.is_relative_to(folder):
        return core.rename(target)  # the folder was made on that disk
    import shutil

    shutil.copyfile(core, target)  # the system's own copy stays where it is
    return target


def _say(text: str) -> None:
    print(f"postmortem demo: {text}", file=sys.stderr, flush=True)
