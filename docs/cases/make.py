"""Makes what the case studies show: python docs/cases/make.py (with gcc and gdb).

Each fenced block after ``<!-- run: COMMAND -->`` becomes what the command writes now, in a folder
with the programs and recordings that the pages name. ``crash.svg`` is the card of the crash as a
terminal shows it, for the README.
"""

import io
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RUNS = ROOT / "corpus" / "ranks" / "runs"
_BLOCK = re.compile(r"(?P<mark><!-- run: (?P<command>[^\n]+) -->\n)```[^\n]*\n.*?\n```\n", re.S)


def prepare(folder: Path) -> None:
    """Put into a folder what the commands read: a core, logs of a real job, a recording."""
    for one in (HERE / "programs").iterdir():
        shutil.copy(one, folder)
    library = ["gcc", "-g", "-O1", "-shared", "-fPIC", "-o", "libfastdecode.so", "fastdecode.c"]
    subprocess.run(library, cwd=folder, check=True)
    # gdb's core needs no core_pattern of this machine.
    commands = ["-ex", "run", "-ex", "generate-core-file core"]
    python = [sys.executable, "train_seg.py"]
    gdb = [
        "gdb",
        "-nx",
        "-batch",
        "-ex",
        "set startup-with-shell off",
        *commands,
        "--args",
        *python,
    ]
    subprocess.run(
        gdb, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with tarfile.open(RUNS / "ho_key3.tar.xz") as packed:
        packed.extractall(folder / "job", filter="data")
    shutil.copy(ROOT / "corpus/strace/ckpt_enospc.strace.zst", folder / "strace.txt.zst")


def said(command: str, folder: Path, *options: str) -> str:
    """Return what one of our commands writes in the folder."""
    words = [sys.executable, "-m", *command.split(), *options]
    done = subprocess.run(words, cwd=folder, env=_environment(), capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr}")
    return done.stdout.rstrip().replace(f"{folder}/", "")


def _environment() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "PAGER": "cat"}


def picture(ansi: str, command: str) -> str:
    """Return a terminal with a command and what it wrote, as SVG without fonts of other hosts."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ {command}\n{ansi}"))
    svg = console.export_svg(title="postmortem")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S).replace(
        "Fira Code", "ui-monospace"
    )


def main() -> None:
    """Run all commands of all pages, and write their output into them."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prepare(folder)
        for page in sorted(HERE.glob("*.md")):
            text = page.read_text()

            def fill(found: re.Match[str]) -> str:
                command = found["command"]
                return f"{found['mark']}```text\n$ {command}\n{said(command, folder)}\n```\n"

            page.write_text(_BLOCK.sub(fill, text))
            print(page.name)
        coloured = said("postmortem core core", folder, "--color", "always", "--width", "98")
        (HERE / "crash.svg").write_text(picture(coloured, "postmortem core core"))


if __name__ == "__main__":
    main()
