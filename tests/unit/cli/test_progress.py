"""The bar on standard error: on terminals that obey, for large files, and gone at the end."""

import io
import os
import pty
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from builders.prose import Prose
from postmortem.cli.progress import ERASE, Progress, Status, bar, obeys

TERMINAL = {"TERM": "xterm"}


@contextmanager
def terminal() -> Iterator[tuple[TextIO, int]]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        yield stream, ours
    os.close(ours)


def read_to(terminal: int, *, ends: int) -> str:
    """Read until as many ``ERASE`` came: a terminal hands on what was written piece by piece."""
    shown = b""
    while shown.count(ERASE.encode()) < ends:
        shown += os.read(terminal, 4096)
    return shown.decode()


def test_the_words() -> None:
    assert bar(0, 2_000_000_000, 0.1) == "[........................]   0%  0 B of 1.9 GiB"
    assert bar(500_000_000, 2_000_000_000, 2.0) == (
        "[######..................]  25%  477 MiB of 1.9 GiB  238 MiB/s  6 s left"
    )
    assert bar(2_000_000_000, 2_000_000_000, 8.0).endswith("100%  1.9 GiB of 1.9 GiB  238 MiB/s")
    assert bar(0, 0, 0).startswith("[########################] 100%")


def test_who_obeys() -> None:
    with terminal() as (stream, _):
        assert obeys(stream, TERMINAL)
        assert not obeys(stream, {"TERM": "dumb"})
        assert not obeys(stream, {})
    assert not obeys(io.StringIO(), TERMINAL)
    assert not obeys(None, TERMINAL)


def test_a_bar_while_a_large_file_is_read_and_nothing_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1000)
    with terminal() as (stream, ours), path.open("rb", buffering=0) as log:
        shown = b""
        seen = threading.Event()

        def watch() -> None:
            nonlocal shown
            while not shown.endswith(b"\r\x1b[K") or b"50%" not in shown:
                shown += os.read(ours, 1000)
                if b"50%" in shown:
                    seen.set()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        with Progress(stream, TERMINAL, worth=1000) as progress:
            progress.opened(log.fileno(), 1000)
            log.read(500)
            assert seen.wait(60)
        watcher.join(60)
        assert b"500 B of 1000 B" in shown
        assert shown.endswith(b"\r\x1b[K")


def test_small_files_and_pipes_show_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1000)
    with terminal() as (stream, ours), path.open("rb") as log:
        os.set_blocking(ours, False)
        with Progress(stream, TERMINAL, worth=1001) as progress:
            progress.opened(log.fileno(), 1000)
            progress.opened(log.fileno(), None)
            assert progress._thread.ident is None
        try:
            shown = os.read(ours, 100)
        except BlockingIOError:
            shown = b""
        assert shown == b""
    stream = io.StringIO()
    with path.open("rb") as log, Progress(stream, TERMINAL, worth=1) as progress:
        progress.opened(log.fileno(), 1000)
    assert stream.getvalue() == ""


def test_words_on_a_terminal_are_one_line_that_goes_away(prose: Prose) -> None:
    with terminal() as (stream, ours):
        with Status(stream, TERMINAL) as say:
            say("gdb is opening the core")
            say("x" * 500)
        shown = read_to(ours, ends=3)
    first, second, last = shown.split(ERASE)[1:]
    prose(first)
    assert second == "postmortem: " + "x" * (79 - len("postmortem: "))
    assert last == ""


def test_words_in_a_log_come_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("postmortem.cli.progress.time.monotonic", lambda: now)
    log = io.StringIO()
    with Status(log, TERMINAL) as say:
        for now in range(100, 131):
            say(f"{now - 100} s")
    assert log.getvalue().split("\n") == [f"postmortem: {n} s" for n in (0, 2, 6, 14, 30)] + [""]


def test_words_for_a_stream_that_is_gone_are_lost_and_nothing_else() -> None:
    log = io.StringIO()
    log.close()
    with Status(log, TERMINAL) as say:
        say("reading")
