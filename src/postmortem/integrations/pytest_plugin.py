"""pytest --postmortem: a worker of xdist that crashes is explained in the report of its test.

Registered as a plugin of pytest; without the option it does nothing. A worker's Python stacks go to
a file of its own, and its core, if the machine leaves one, is read as `postmortem core` does.
"""

import contextlib
import faulthandler
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from postmortem.facts.crash import CRASH_SIGNALS

_CORE_SECONDS = 5.0
_EXPLAIN_SECONDS = 120.0
_RUNNERS = ("/_pytest/", "/pluggy/", "/xdist/", "/execnet/")
_CRASHES = frozenset(signal.Signals[name] for name in CRASH_SIGNALS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("postmortem").addoption(
        "--postmortem",
        action="store_true",
        help="explain workers of pytest-xdist that crash: signal, stacks, core",
    )


@pytest.hookimpl(trylast=True)  # after pytest's own faulthandler
def pytest_configure(config: pytest.Config) -> None:
    """Take part where it was asked for: as a worker, or as who starts them."""
    if not config.getoption("postmortem"):
        return
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is None:
        config.pluginmanager.register(_Controller(), "postmortem-controller")
    elif "postmortem" in given:
        _prepare_worker(config, Path(given["postmortem"]))


def _prepare_worker(config: pytest.Config, folder: Path) -> None:
    """Let a crash of this worker leave something."""
    stream = (folder / f"{os.getpid()}.stack").open("w")
    config.add_cleanup(stream.close)
    config.add_cleanup(faulthandler.disable)
    faulthandler.enable(stream)
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if soft == 0 and hard != 0:
        (folder / f"{os.getpid()}.raised").touch()
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


class _Controller:
    """Hears of workers that are gone."""

    def __init__(self) -> None:
        self._began = time.time()
        self._folder = Path(tempfile.mkdtemp(prefix="postmortem-pytest-"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where to write."""
        node.workerinput["postmortem"] = str(self._folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """Say in the report of a test how its worker died."""
        text = self._explained(report.node)
        report.longrepr = f"{report.longrepr}\n\n{text}"

    def pytest_unconfigure(self) -> None:
        """Leave nothing."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _explained(self, node: Any) -> str:
        try:
            pid = int(node.gateway._io.popen.pid)
        except (AttributeError, TypeError, ValueError):
            return "postmortem: the worker runs elsewhere, and nothing is known of its end"
        number, words = _ending(node)
        parts = [f"postmortem: worker {node.gateway.id} (pid {pid}) {words}"]
        with contextlib.suppress(OSError):
            stack = (self._folder / f"{pid}.stack").read_text(errors="replace")
            parts += filter(None, [_own_frames(stack)])
        if number in _CRASHES:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                parts += self._of_core(pid)
        return "\n\n".join(parts)

    def _of_core(self, pid: int) -> list[str]:
        from postmortem.readers.corefind import find_core_of

        search = find_core_of(
            pid,
            started_at=self._began,
            cwd=Path.cwd(),
            command=Path(sys.executable).name,
            wait_seconds=_CORE_SECONDS,
        )
        if search.path is None:
            return [f"postmortem: {search.why}"]
        words = [sys.executable, "-P", "-m", "postmortem", "core", str(search.path)]
        done = subprocess.run(
            [*words, "--engine", "native"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_EXPLAIN_SECONDS,
            check=False,
        )
        said = (done.stdout if done.returncode in (0, 1) else done.stderr).rstrip()
        if (self._folder / f"{pid}.raised").exists():  # it is there because of us alone
            search.path.unlink(missing_ok=True)
            return [said]
        return [said, f"postmortem: the core is {search.path}"]


def _own_frames(stack: str) -> str:
    """Return where the thread that crashed stood, without the frames of those who run tests."""
    at = stack.find("Current thread")
    lines = stack[max(at, 0) :].splitlines()
    return "\n".join(line for line in lines if not any(name in line for name in _RUNNERS))


def _ending(node: Any) -> tuple[int, str]:
    """Return the signal that ended a worker, or 0, and how it ended in words."""
    try:
        code = int(node.gateway._io.popen.wait(2.0))
    except (AttributeError, subprocess.SubprocessError, OSError):
        return 0, "is gone"
    if code >= 0:
        return 0, f"exited with {code}"
    from postmortem.readers.siginfo import signal_name

    return -code, f"was killed by {signal_name(-code)}"
