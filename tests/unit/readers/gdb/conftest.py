"""Programs that pretend to be gdb and misbehave: the misbehaviour is what is tested."""

import os
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

FakeGdb = Callable[..., str]

_HEAD = """\
#!{python}
import json, os, signal, subprocess, sys, time
if "--version" in sys.argv:
    print("GNU gdb (Fake 0.1-2) 12.3")
    sys.exit(0)
def say(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()
def commands():
    for line in sys.stdin:
        token = "".join(c for c in line[:9] if c.isdigit())
        yield token, line[len(token):].rstrip("\\n")
def answer(token, command):
    if command == "-list-features":
        say(token + '^done,features=["python"]')
    elif command == "-file-list-shared-libraries":
        say(token + "^done,shared-libraries=[]")
    else:
        say(token + "^done")
"""


@pytest.fixture
def fake_gdb(tmp_path: Path) -> FakeGdb:
    """Write an executable with the given Python body; it has `say`, `commands` and `answer`."""

    def write(body: str, name: str = "gdb") -> str:
        path = tmp_path / name
        path.write_text(_HEAD.format(python=sys.executable) + textwrap.dedent(body))
        path.chmod(0o755)
        return str(path)

    return write


def group_is_gone(group: int, seconds: float = 60.0) -> bool:
    """Whether no process of the group runs; zombies that nobody reaps here do not count."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not _members(group):
            return True
        time.sleep(0.02)
    return False


def _members(group: int) -> list[int]:
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(pgrp) == group and state not in "ZX":
            members.append(int(entry.name))
    return members


def our_environment() -> dict[str, str]:
    """The environment of this test run, with the import path of the code under test."""
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
