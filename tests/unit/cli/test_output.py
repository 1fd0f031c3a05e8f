"""When to colour and how wide to write."""

import io
import os
import pty
import struct
import sys

import pytest

from postmortem.cli.output import page_width, use_color

fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")


@pytest.fixture
def terminal():
    """Return a real terminal, 123 columns wide."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 123, 0, 0))
    with os.fdopen(secondary, "w") as stream:
        yield stream
    os.close(primary)


@pytest.mark.parametrize(
    ("choice", "environ", "colour"),
    [
        ("auto", {"TERM": "xterm"}, True),
        ("auto", {"TERM": "dumb"}, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_on_a_terminal(terminal, choice, environ, colour) -> None:
    assert use_color(choice, terminal, environ) is colour


def test_colour_elsewhere_only_if_forced() -> None:
    assert not use_color("auto", io.StringIO(), {"TERM": "xterm"})
    assert use_color("auto", io.StringIO(), {"FORCE_COLOR": "1"})
    assert not use_color("auto", io.StringIO(), {"FORCE_COLOR": "0"})


def test_width(terminal) -> None:
    assert page_width(None, terminal) == 123
    assert page_width(60, terminal) == 60
    assert page_width(None, io.StringIO()) == 100
    assert page_width(None, None) == 100


def test_a_terminal_without_a_size(terminal) -> None:
    fcntl.ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    assert page_width(None, terminal) == 100


def test_a_very_wide_terminal_is_not_filled(terminal) -> None:
    fcntl.ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 40, 400, 0, 0))
    assert page_width(None, terminal) == 160


def test_a_closed_stream_is_no_terminal() -> None:
    stream = open(os.devnull, "w")  # noqa: SIM115, PTH123
    stream.close()
    assert not use_color("auto", stream, {"TERM": "xterm"})
    assert page_width(None, stream) == 100
    assert sys.stdout is not stream
