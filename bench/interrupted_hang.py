"""Ends ``hang`` at random moments: bench/interrupted_hang.py [--runs N].

Each run reads living processes without a pause, half of them by the native engine and half by gdb,
and is sent SIGKILL, SIGTERM, SIGINT or SIGHUP at a moment drawn from all that a run takes. Told is
how long a process was stopped after that, and at most at one go; which were still stopped or
traced after ten seconds; and what was left in the folder of temporary files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import machine

HERE = Path(__file__).resolve().parent
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ENGINES = {"native": 1.5, "gdb": 4.0}
"""By engine, the last moment at which a signal may come, in seconds after the start."""
_PATIENCE = 10.0
_LOOK = 0.004
_WAITS = "import sys; print(flush=True); sys.stdin.read()"
_COMPUTES = """
import threading
def turn():
    total = 0
    while True:
        total += sum(range(1000))
for _ in range(3):
    threading.Thread(target=turn, daemon=True).start()
print(flush=True)
threading.Event().wait()
"""


class Watch:
    """How long some processes are stopped, looked at every few milliseconds."""

    def __init__(self, pids: list[int]) -> None:
        """Begin to look."""
        self.longest = 0.0
        self.sent = float("inf")
        self.after = 0.0
        """Seconds from the signal to the last moment at which one was seen stopped."""
        self._pids = pids
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        since: dict[int, float] = {}
        while not self._over.wait(_LOOK):
            now = time.monotonic()
            for pid in self._pids:
                if state(pid) not in "tT":
                    since.pop(pid, None)
                    continue
                self.longest = max(self.longest, now - since.setdefault(pid, now))
                self.after = max(self.after, now - self.sent)

    def end(self) -> None:
        """Look no longer."""
        self._over.set()
        self._thread.join()


def state(pid: int) -> str:
    """Return the letter of a process's state (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def free(pid: int) -> bool:
    """Return whether it goes on and nobody traces it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return state(pid) not in "tT" and "TracerPid:\t0\n" in status


@contextmanager
def targets() -> Iterator[list[int]]:
    """Have a process that waits and one of four threads that computes."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for text in (_WAITS, _COMPUTES)
    ]
    try:
        for one in started:
            assert one.stdout is not None
            one.stdout.readline()
        yield [one.pid for one in started]
    finally:
        for one in started:
            one.kill()
            one.communicate()


def interrupt(
    pids: list[int], engine: str, number: signal.Signals, wait: float, folder: str
) -> dict[str, Any]:
    """Start a run, send it a signal after `wait` seconds, and tell what came of it."""
    line = [sys.executable, "-m", "postmortem", "hang", *map(str, pids), "--engine", engine]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), "TMPDIR": folder}
    watch = Watch(pids)
    with subprocess.Popen(
        [*line, "--samples", "100", "--gap", "0.001"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=env,
    ) as reader:
        time.sleep(wait)
        was_stopped = any(state(pid) in "tT" for pid in pids)
        watch.sent = time.monotonic()
        reader.send_signal(number)
        reader.wait()
    end = time.monotonic() + _PATIENCE
    while not all(map(free, pids)) and time.monotonic() < end:
        time.sleep(_LOOK)
    stuck = [pid for pid in pids if not free(pid)]
    while any(Path(folder).iterdir()) and time.monotonic() < min(end, watch.sent + 2):
        time.sleep(_LOOK)
    watch.end()
    return {
        "engine": engine,
        "signal": number.name,
        "at_s": round(wait, 3),
        "met_it_stopped": was_stopped,
        "stopped_after_s": round(watch.after, 3),
        "stopped_at_one_go_s": round(watch.longest, 3),
        "left_stopped": len(stuck),
        "left_files": sorted(path.name for path in Path(folder).iterdir()),
    }


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "interrupted_hang.json")
    args = parser.parse_args()
    # What nohup or a shell starts in the background ignores some, and so would what it starts.
    for number in set(SIGNALS) - {signal.SIGKILL}:
        signal.signal(number, signal.SIG_DFL)
    chance = random.Random(args.seed)
    rows = []
    with targets() as pids:
        for turn in range(args.runs):
            engine = tuple(ENGINES)[turn % 2]
            number = SIGNALS[turn // 2 % len(SIGNALS)]
            with tempfile.TemporaryDirectory() as folder:
                wait = chance.uniform(0.05, ENGINES[engine])
                rows.append(interrupt(pids, engine, number, wait, folder))
            print(rows[-1], flush=True)
    result = {
        "machine": machine(),
        "runs": len(rows),
        "by_engine": dict(Counter(row["engine"] for row in rows)),
        "met_a_process_stopped": sum(row["met_it_stopped"] for row in rows),
        "longest_stop_after_the_signal_s": {
            engine: max(row["stopped_after_s"] for row in rows if row["engine"] == engine)
            for engine in ENGINES
        },
        "longest_stop_at_one_go_s": {
            engine: max(row["stopped_at_one_go_s"] for row in rows if row["engine"] == engine)
            for engine in ENGINES
        },
        "left_stopped": sum(row["left_stopped"] for row in rows),
        "runs_that_left_files": sum(bool(row["left_files"]) for row in rows),
        "rows": rows,
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
