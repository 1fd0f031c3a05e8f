"""Coverage-guided fuzzing of folders of evidence, with atheris.

    fuzz_folders.py seeds FOLDER
    fuzz_folders.py FOLDER... -runs=3000 -seed=1 ...

The second is a libFuzzer with its options. An input is a folder: for each file a byte that chooses
its name, a byte that chooses what it is (a regular file, a FIFO, a link to another one or to the
folder, a hole), two bytes of length and the contents. What must hold for any folder: the inventory
tells of every file once, and opens none that could block; reading the logs in it ends with a report
or with one clear line.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

NAMES = (
    "rank0.log", "rank1.err", "job.out", "node1/train.log", "attempt_0/0/stderr.log",
    "attempt_0/0/error.json", "nccl_trace_rank_0", "rank0.flight", "stack.rank3", "dmesg.txt",
    "model.safetensors.index.json", ".metadata", "step_1.pt", "core.7", "strace.txt.7", "a.zip",
    "a.tar", "hang.json", "x", "é\udcff",
)  # fmt: skip
_MOST_FILES = 24


def lay_out(data: bytes, folder: Path) -> int:
    """Make the folder that the bytes describe; return how many files it has."""
    at = made = 0
    while at + 4 <= len(data) and made < _MOST_FILES:
        name, kind = NAMES[data[at] % len(NAMES)], data[at + 1] % 8
        size = int.from_bytes(data[at + 2 : at + 4], "little")
        content = data[at + 4 : at + 4 + size]
        at += 4 + len(content)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path):
            continue
        if kind == 5:
            os.mkfifo(path)
        elif kind == 6:
            path.symlink_to(NAMES[len(content) % len(NAMES)] if content else ".")
        elif kind == 7:
            with path.open("wb") as stream:
                stream.truncate(size << 12)
                stream.seek(0, os.SEEK_END)
                stream.write(content)
        else:
            path.write_bytes(content)
        made += 1
    return made


def check(data: bytes) -> None:
    """Take stock of a folder and read its logs; raises AssertionError for what must not be."""
    from postmortem.analyses.ranklogs import RankLogOptions, analyse
    from postmortem.errors import EvidenceError
    from postmortem.readers.inventory import take_inventory

    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        made = lay_out(data, folder)
        found = take_inventory([str(folder)])
        paths = [item.path for item in found.items]
        assert len(paths) == len(set(paths))
        assert len(paths) <= made
        try:
            said = analyse([str(folder)], RankLogOptions()).verdict
        except EvidenceError as error:
            said = error.what
        assert said
        assert "\n" not in said
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_seeds(folder: Path) -> None:
    """Write folders with one file of each kind, and one with several."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = (
        b"[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: x\n",
        b'7 openat(AT_FDCWD, "/a", O_RDONLY) = -1 ENOENT (No such file)\n' * 4,
        b"[  12.5] Out of memory: Killed process 7 (python) total-vm:1kB\n",
        b'{\n  "schema": "postmortem/1",\n  "kind": "core"}',
        b'Thread 0x7f (most recent call first):\n  File "t.py", line 3 in f\n',
        b"loss nan\nloss nan\n",
        b"\0" * 64 + b"Killed\n",
    )
    whole = b""
    for number, text in enumerate(texts):
        one = bytes([number, 0]) + len(text).to_bytes(2, "little") + text
        (folder / f"one{number}").write_bytes(one)
        whole += one
    (folder / "all").write_bytes(whole + b"\x03\x05\0\0" + b"\x04\x06\1\0a" + b"\x05\x07\1\0b")


def main() -> None:
    """Write seeds, or hand over to libFuzzer."""
    if sys.argv[1:2] == ["seeds"]:
        write_seeds(Path(sys.argv[2]))
        return
    import atheris

    with atheris.instrument_imports(include=["postmortem.readers"]):
        check(b"")
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
