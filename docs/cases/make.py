"""Makes what the case studies show: python docs/cases/make.py (with gcc, gdb, PyTorch).

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
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
    with tarfile.open(ROOT / "corpus/incidents/runs/disk_full_strace.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    (folder / "disk_full_strace").rename(folder / "job-4712")
    subprocess.run(
        [sys.executable, "diverges.py"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )


def said(command: str, folder: Path) -> str:
    """Return what a command line writes in the folder."""
    (folder / "bin").mkdir(exist_ok=True)
    own = folder / "bin" / "postmortem"
    own.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m postmortem "$@"\n')
    own.chmod(0o755)
    path = f"{own.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100", "PAGER": "cat"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr}")
    return done.stdout.rstrip().replace(f"{folder}/", "")


@contextmanager
def stuck(folder: Path) -> Iterator[None]:
    """Have a job that does not get on, for as long as its page is made."""
    os.mkfifo(folder / "feed")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command += ["--rdzv-id", "job-4711", "stuck.py"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as job:
        try:
            assert job.stdout is not None
            while job.stdout.readline() != "step 10\n":
                pass
            time.sleep(5)
            yield
        finally:
            job.terminate()


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

            with stuck(folder) if page.stem == "hang" else nullcontext():
                page.write_text(_BLOCK.sub(fill, text))
            print(page.name)
        coloured = said("postmortem core core --color always --width 98", folder)
        (HERE / "crash.svg").write_text(picture(coloured, "postmortem core core"))


if __name__ == "__main__":
    main()
