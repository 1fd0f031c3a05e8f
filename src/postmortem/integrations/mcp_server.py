"""A server of the Model Context Protocol: an agent asks, and gets the JSON reports of the commands.

``pip install 'torch-postmortem[mcp]'``, then ``python -P -m postmortem.integrations.mcp_server`` is
a server over stdio. What it offers reads evidence: nothing is started, attached to or stopped, and
secrets stay masked.
"""

import subprocess
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from postmortem._version import __version__

_MOST_SECONDS = 900
_REPORTED = (0, 1)
"""What a command exits with that has written a report."""


def explain(paths: list[str]) -> str:
    """Find all evidence of a job under files and folders, and tell what failed, where and why."""
    return _said("triage", "--json", "--", *paths)


def core(path: str, python: str | None = None) -> str:
    """Explain a core file; `python`: the executable that crashed."""
    return _said("core", "--json", *([f"--python={python}"] if python else []), "--", path)


def strace(path: str, find: str | None = None) -> str:
    """Explain a log of strace; `find`: the errno, call or path to look for, as ENOSPC."""
    return _said("strace", "--json", *([f"--find={find}"] if find else []), "--", path)


def rule(name: str) -> str:
    """Explain the id of a diagnosis: what it means, how to be sure, what to do."""
    return _said("rules", "--", name)


def _said(*words: str) -> str:
    """Return what a command wrote; raises ToolError with its one line where it cannot answer.

    It runs in a process of its own: it may be ended where evidence makes it go on for too long.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "postmortem", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_MOST_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"no answer within {_MOST_SECONDS} s") from error
    if done.returncode not in _REPORTED:
        raise ToolError(done.stderr.strip() or f"postmortem ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    said = "Says why a training job died from what it left."
    server = MCPServer("postmortem", version=__version__, instructions=said)
    for tool in (explain, core, strace, rule):
        server.add_tool(tool)
    server.run()
