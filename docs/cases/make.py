"""Makes what the cases and the tutorial show: python docs/cases/make.py [tutorial/cores ...].

Each fenced block after ``<!-- run: COMMAND -->`` becomes what the command writes now, in a folder
with the programs and recordings that the pages name; ``pictures`` are drawn by pictures.py. Needs
gcc, gdb, git and PyTorch; a browser for pictures of the HTML report, perfetto for the timeline.
"""

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

from pictures import draw

HERE = Path(__file__).resolve().parent
TUTORIAL = HERE.parent / "tutorial"
ROOT = HERE.parent.parent
RUNS = ROOT / "corpus" / "ranks" / "runs"
_BLOCK = re.compile(r"(?P<mark><!-- run: (?P<command>[^\n]+) -->\n)```[^\n]*\n.*?\n```\n", re.S)


def prepare(folder: Path) -> None:
    """Put into a folder what the commands read: a core, logs of a real job, a recording."""
    for one in (*(HERE / "programs").iterdir(), *(TUTORIAL / "programs").iterdir()):
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
    workers = ROOT / "corpus/strace/dataloader_spawn_tTyy.strace.zst"
    shutil.copy(workers, folder / "workers.txt.zst")
    with tarfile.open(ROOT / "corpus/incidents/runs/disk_full_strace.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    (folder / "disk_full_strace").rename(folder / "job-4712")
    subprocess.run(
        [sys.executable, "diverges.py"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )


def said(command: str, folder: Path) -> str:
    """Return what a command line writes in the folder, without paths of this machine."""
    (folder / "bin").mkdir(exist_ok=True)
    own = folder / "bin" / "postmortem"
    own.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m postmortem "$@"\n')
    own.chmod(0o755)
    path = f"{own.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100", "PAGER": "cat"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr}")
    told = done.stdout.rstrip().replace(f"{folder}/", "")
    return told.replace(sys.prefix, "/opt/env").replace(sys.base_prefix, "/usr")


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


def evidence_of_tutorial(folder: Path) -> None:
    """Put what the tutorial reads beside the rest: more cores, a history, a hidden module."""
    for kind in ("segv", "segv", "abort"):
        said(f"postmortem demo {kind} -q --keep cores", folder)
    (folder / "checkpoints").mkdir()
    (folder / "shadow").mkdir()
    (folder / "shadow" / "random.py").write_text("SEED = 7\n")
    program = (folder / "train.py").read_text()
    missing = program.replace('row["label"]', 'row["lable"]')
    whole = program.replace('"c"}', '"c", "label": 1}')
    unable = whole.replace("def loss", "import nothing_of_this_name\n\n\ndef loss")
    history = [whole, whole, unable, whole, missing, missing, missing]
    repository = folder / "repo"
    git = ["git", "-C", str(repository), "-c", "user.name=you", "-c", "user.email=you@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    for number, text in enumerate(history, 1):
        (repository / "train.py").write_text(f"{text}# change {number}\n")
        subprocess.run([*git, "add", "train.py"], check=True)
        subprocess.run([*git, "commit", "-qm", f"change {number}"], check=True)
        if number == 1:
            subprocess.run([*git, "tag", "v1"], check=True)


def main() -> None:
    """Run the commands of the pages that are named, or of all, and write their output into them."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    pages = [*sorted(HERE.glob("*.md")), *sorted(TUTORIAL.glob("*.md"))]
    known = [f"{page.parent.name}/{page.stem}" for page in pages]
    wanted = sys.argv[1:] or [*known, "pictures"]
    if strange := set(wanted) - {*known, "pictures"}:
        raise SystemExit(f"no page: {', '.join(strange)}; there are pictures, {', '.join(known)}")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prepare(folder)
        if any(name.startswith("tutorial/") for name in wanted):
            evidence_of_tutorial(folder)
        for name, page in zip(known, pages, strict=True):
            if name not in wanted:
                continue

            def fill(found: re.Match[str]) -> str:
                command = found["command"]
                return f"{found['mark']}```text\n$ {command}\n{said(command, folder)}\n```\n"

            with stuck(folder) if name == "cases/hang" else nullcontext():
                page.write_text(_BLOCK.sub(fill, page.read_text()))
            print(name)
        if "pictures" in wanted:
            draw(folder, HERE.parent / "pictures", said)


if __name__ == "__main__":
    main()
