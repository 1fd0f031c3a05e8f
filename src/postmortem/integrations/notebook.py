"""``%load_ext postmortem``: ``%%memory`` for a cell, ``%postmortem`` for a kernel that died.

A kernel that is killed tells nothing, and the next one starts as if nothing had been. So the
extension keeps a small black box on disk: the cell that runs, memory once a second (a ring file as
``postmortem watch`` has it), and the stacks of all threads at a fatal signal (faulthandler).
"""

import faulthandler
import hashlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from postmortem.breakpoints import runtime
from postmortem.breakpoints.place import identity, is_gone
from postmortem.facts.watch import MIB, Sample
from postmortem.facts.watch_format import OF_A_CEILING
from postmortem.readers.watch_ring import read_watch_ring
from postmortem.text import size
from postmortem.watch.limits import limits_of
from postmortem.watch.ring import Ring
from postmortem.watch.sampler import Process

_OFTEN = 0.02
_RING_BYTES = 1 << 18
_FULL = 0.9


def load_ipython_extension(shell: Any) -> None:
    """Register the magics, and begin a black box; what the kernel before left is kept beside it."""
    box = BlackBox(shell)
    shell.register_magic_function(_memory(shell), "cell", "memory")
    shell.register_magic_function(box.tell, "line", "postmortem")


def _memory(shell: Any) -> Any:
    def memory(line: str, cell: str) -> None:
        """Run a cell and print what it took, what it kept, and the lines that took it."""
        meter = _Meter()
        with meter:
            shell.run_cell(cell)
        print("\n".join(meter.lines(cell)))  # noqa: T201  a magic speaks to its user

    return memory


class _Meter:
    """Memory of this process while a cell runs, 50 times a second, and where the cell stood."""

    def __init__(self) -> None:
        self._process = Process(os.getpid(), "", None)
        self._main = threading.get_ident()
        self._over = threading.Event()
        self._grew: dict[int, int] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.before = self.peak = self.after = self._held()

    def _held(self) -> int:
        sample = self._process.look(time.time())
        return sample.held if sample is not None else 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.after = self._held()
        self.peak = max(self.peak, self.after)
        self._process.close()

    def _watch(self) -> None:
        last = self.before
        while not self._over.wait(_OFTEN):
            now = self._held()
            self.peak = max(self.peak, now)
            line = self._line()
            if now > last and line is not None:
                self._grew[line] = self._grew.get(line, 0) + now - last
            last = now

    def _line(self) -> int | None:
        frame = sys._current_frames().get(self._main)
        while frame is not None:  # the cell's own frame, beneath the libraries that it calls
            name = frame.f_code.co_filename
            if "ipykernel_" in name or name.startswith("<ipython-input"):
                return frame.f_lineno
            frame = frame.f_back
        return None

    def lines(self, cell: str) -> list[str]:
        """Return the result as lines."""
        kept = self.after - self.before
        sign = "-" if kept < 0 else "+"
        found = [
            f"memory: {size(self.before)} before, {size(self.peak)} at most, "
            f"{size(self.after)} after ({sign}{size(abs(kept))})"
        ]
        text = cell.split("\n")
        for number, grew in sorted(self._grew.items(), key=lambda row: -row[1])[:5]:
            if grew >= MIB and 0 < number <= len(text):
                found.append(f"  likely +{size(grew)} at line {number}: {text[number - 1].strip()}")
        return found


class BlackBox:
    """What is left of a kernel when it dies."""

    def __init__(self, shell: Any) -> None:
        self._stem = f"{runtime.folder()}/kernel-{_key(shell)}"
        self._rotate()
        runtime.write(f"{self._stem}.json", json.dumps({"who": identity(), "cell": None}))
        self._fault = open(f"{self._stem}.fault", "w", encoding="utf-8")  # noqa: PTH123,SIM115
        if not faulthandler.is_enabled():
            faulthandler.enable(self._fault)
        self._ring = Ring(f"{self._stem}.ring", _RING_BYTES, 1.0)
        self._process = Process(os.getpid(), "", None)
        self._limits = limits_of(os.getpid())
        threading.Thread(target=self._keep, name="postmortem-box", daemon=True).start()
        shell.events.register("pre_run_cell", self._runs)
        shell.events.register("post_run_cell", self._ran)

    def _rotate(self) -> None:
        found = _words(self._stem)
        if found is None or is_gone(str(found.get("who"))) is not True:
            return  # there was none, or it still lives and has our name
        for suffix in ("json", "fault", "ring"):
            if Path(f"{self._stem}.{suffix}").exists():
                os.replace(f"{self._stem}.{suffix}", f"{self._stem}.before.{suffix}")  # noqa: PTH105

    def _runs(self, info: Any = None) -> None:
        cell = str(getattr(info, "raw_cell", "") or "")
        words = {"who": identity(), "cell": cell[:4000], "since": time.time()}
        runtime.write(f"{self._stem}.json", json.dumps(words))

    def _ran(self, result: Any = None) -> None:
        runtime.write(f"{self._stem}.json", json.dumps({"who": identity(), "cell": None}))

    def _keep(self) -> None:
        turn = -1
        while True:
            at = time.time()
            if self._ring.turn() != turn:
                turn = self._ring.turn()
                self._ring.name(at, os.getpid(), None, "the kernel")
                for index, limit in enumerate(self._limits):
                    self._ring.name(at, OF_A_CEILING + index, None, limit.name)
            sample = self._process.look(at)
            if sample is None:
                return
            self._ring.sample(os.getpid(), sample)
            for index, limit in enumerate(self._limits):
                used = limit.used()
                if used is not None:
                    self._ring.ceiling(at, index, limit.limit, used)
            time.sleep(1)

    def tell(self, line: str = "") -> None:
        """Print how the kernel before this one ended."""
        from postmortem.render.safe import line as safe
        from postmortem.report.redact import Redactor

        told = Redactor().text("\n".join(tell_of(f"{self._stem}.before")))
        print("\n".join(map(safe, told.split("\n"))))  # noqa: T201


def tell_of(stem: str) -> list[str]:
    """Return what a black box says of its kernel's end."""
    words = _words(stem)
    if words is None:
        return ["no kernel of this notebook has died since the extension was loaded in it"]
    cell = words.get("cell")
    if not isinstance(cell, str):
        return ["the kernel before this one ended while no cell ran: it was restarted or shut down"]
    found = ["the kernel before this one died in this cell:"]
    found += [f"    {row}" for row in cell.split("\n")[:12]]
    fault = (runtime.read(f"{stem}.fault") or "").strip()
    if fault:
        found += ["certain: it died of a fatal signal"]
        found += [f"    {row}" for row in fault.split("\n")[:14]]
        return found
    found += _memory_at_the_end(f"{stem}.ring")
    return found


def _memory_at_the_end(path: str) -> list[str]:
    from postmortem.errors import EvidenceError

    try:
        seen, _, _ = read_watch_ring(Path(path))
    except EvidenceError as error:
        return [f"its memory is not known: {error}"]
    samples: tuple[Sample, ...] = seen.processes[0].samples if seen.processes else ()
    rows = []
    if samples:
        rows.append(
            f"it held {size(samples[-1].held)} a second before, at most "
            f"{size(max(one.held for one in samples))}"
        )
    full = [
        one
        for one in seen.ceilings
        if one.limit_bytes and one.used[-1][1] > _FULL * one.limit_bytes
    ]
    for one in full[:1]:
        used = one.used[-1][1]
        rows.append(
            f"likely killed for memory: {one.name} was at {size(used)} of {size(one.limit_bytes)}; "
            "the kernel's log says so if it was"
        )
    if not full:
        rows.append(
            "it left no stack, so it was killed (SIGKILL) or ended by itself (os._exit); no memory "
            "limit was near a second before, but a jump within that second would not be seen"
        )
    return rows


def _words(stem: str) -> dict[str, Any] | None:
    try:
        found = json.loads(runtime.read(f"{stem}.json") or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _key(shell: Any) -> str:
    """Return what a kernel and the one that takes its place have in common."""
    config = getattr(shell, "config", {}) or {}
    file = config.get("IPKernelApp", {}).get("connection_file") or ""
    if not file and "-f" in sys.argv[:-1]:
        file = sys.argv[sys.argv.index("-f") + 1]
    if not file:
        file = f"terminal of {os.getppid()}"
    return hashlib.sha256(os.path.basename(str(file)).encode()).hexdigest()[:16]  # noqa: PTH119
