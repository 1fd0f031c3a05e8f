"""Kills `postmortem emulate` at random moments: bench/emulate_kills.py [--runs N] [--out FILE].

Each kind of fault has a command with a child in a session of its own. At a random moment one of
`emulate`, its guard or its actor gets SIGKILL, or two of them together, or the whole process group.
Where `emulate` lives on, it is ended by SIGTERM then, for only the death of both, it and its guard,
leaves the command alive. After it nobody that belongs to the command may run or be stopped, and no
mount and no control group of the run may be left.
"""

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from machine import machine, tell

KINDS = (
    "disk data",
    "disk data --read-only",
    "shm 64K",
    "fd 64",
    "memory 200M",
    "slow command --factor 50",
    "kill command --after 600",
    "net --rate 1M",
    "clock 9",
    "nan body --step 3",
)
VICTIMS = ("emulate", "guard", "actor", "emulate and actor", "guard and actor", "group")
_EMULATE = (sys.executable, "-m", "postmortem", "emulate")
_MARK = "POSTMORTEM_BENCH_MARK"
_LATEST = 1.5
_PATIENCE = 15.0
_COMMAND = "setsid sleep 300 >/dev/null 2>&1 & while :; do :; sleep 0.05; done"


def marked(mark: str) -> dict[int, str]:
    """Return the processes that have a mark in their environment, with their states."""
    found = {}
    for name in [one.name for one in Path("/proc").iterdir()]:
        with suppress(OSError, ValueError):
            pid = int(name)
            if f"{_MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    return {pid: state for pid, state in found.items() if state not in "ZX"}


def parent(pid: int) -> int:
    """Return the parent of a process; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    except OSError:
        return 0


def helpers(emulate: int, mark: str) -> dict[str, int]:
    """Return the pids of emulate, its guard and its actor, of those that there are."""
    guards = [
        pid for pid in marked(mark) if parent(pid) == emulate and os.getsid(pid) == pid != emulate
    ]
    found = {"emulate": emulate}
    for guard in guards[:1]:
        found["guard"] = guard
        for actor in [pid for pid in marked(mark) if parent(pid) == guard][:1]:
            found["actor"] = actor
    return found


def left_of(emulate: int, folder: str) -> list[str]:
    """Return the mounts in a folder, and the control groups that a run has made."""
    rows = Path("/proc/self/mountinfo").read_text().splitlines()
    groups = Path("/sys/fs/cgroup").rglob(f"postmortem-{emulate}*")
    return [row for row in rows if folder in row] + [str(group) for group in groups]


def attack(kind: str, chosen: random.Random) -> tuple[str, str]:
    """Kill somebody; return who it was, and what is wrong afterwards ("" where nothing is)."""
    victim, after = chosen.choice(VICTIMS), chosen.uniform(0.0, _LATEST)
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").mkdir()
        child = subprocess.Popen(
            [*_EMULATE, *kind.split(), "--", "sh", "-c", _COMMAND],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, _MARK: mark},
            start_new_session=True,
        )
        time.sleep(after)
        there = helpers(child.pid, mark)
        hit = [name for name in victim.split(" and ") if name in there]
        with suppress(ProcessLookupError):
            if victim == "group" or not hit:
                victim = "group"
                os.killpg(child.pid, signal.SIGKILL)
            for name in hit:
                os.kill(there[name], signal.SIGKILL)
        if child.poll() is None and "emulate" not in victim and victim != "group":
            time.sleep(0.5)
            if any(state == "T" for state in marked(mark).values()) and "slow" not in kind:
                return victim, "somebody stays stopped"
            child.terminate()
        child.wait()
        until = time.monotonic() + _PATIENCE
        while (left := marked(mark)) and time.monotonic() < until:
            time.sleep(0.05)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if left:
            return victim, f"{len(left)} of its processes run on"
        return victim, "; ".join(left_of(child.pid, folder))


def main() -> None:
    """Attack and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="for each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    chosen = random.Random(args.seed)
    victims, wrong = Counter[str](), []
    for _ in range(args.runs):
        for kind in KINDS:
            victim, what = attack(kind, chosen)
            victims[victim] += 1
            if what:
                wrong.append({"kind": kind, "killed": victim, "what": what})
                print(wrong[-1], file=sys.stderr)
    result = {
        "machine": machine(),
        "runs": args.runs * len(KINDS),
        "kinds": list(KINDS),
        "killed": dict(victims),
        "wrong": wrong,
    }
    tell(result, args.out)


if __name__ == "__main__":
    main()
