"""What arguments may be: numbers in a range, sizes, signals; each refused in one way."""

import argparse
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from postmortem.text import parse_size


def adding(options: argparse._ActionsContainer) -> Callable[..., argparse.Action]:
    """Return what adds an argument, or an option as help shows it: ``-o --output FILE``.

    It takes besides what `add_argument` does. An option that takes no value is a flag.
    """

    def add(names: str, told: str, **more: Any) -> argparse.Action:
        words = names.split()
        known = [word for word in words if word.startswith("-")] or words[:1]
        if len(words) > len(known):
            more["metavar"] = words[-1]
        elif known[0].startswith("-") and not more.keys() & {"action", "choices", "nargs"}:
            more["action"] = "store_true"
        return options.add_argument(*known, help=told, **more)

    return add


def whole(low: int, high: int, what: str = "") -> Callable[[str], int]:
    """Return what takes a whole number in a range; `what` it is, if not just a number."""

    def taken(text: str) -> int:
        plain = text.isascii() and text.isdecimal() and len(text) < 20
        if not plain or not low <= int(text) <= high:
            said = what or f"a number from {low} to {high}"
            raise argparse.ArgumentTypeError(f"{text!r} is not {said}")
        return int(text)

    return taken


def number(
    low: float, high: float, what: str = "a number of seconds", *, above: bool = False
) -> Callable[[str], float]:
    """Return what takes a number in a range, `low` left out where it is to be `above`."""

    def taken(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high or (above and value == low):  # nan is in no range
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return taken


pid = whole(1, (1 << 31) - 1, "the number of a process")
seconds = number(0, 86_400, above=True)


def add_world_size(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how many ranks a job has."""
    add = adding(parser)
    add(
        "--world-size N",
        "number of ranks: reports ranks that wrote nothing (default: what the logs say)",
        type=whole(1, 99_999_999, "a number of ranks"),
    )


def size_in_bytes(text: str, least: int = 1 << 20) -> int:
    """Return the bytes of ``512M``."""
    try:
        return parse_size(text, least)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512M or 4G") from None


def signal_number(text: str) -> int:
    """Return the number of ``SIGTERM``, ``term`` or ``TERM``."""
    name = f"SIG{text.upper().removeprefix('SIG')}"
    if name not in signal.Signals.__members__:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a signal")
    return signal.Signals[name].value


def behind_dashes(args: argparse.Namespace) -> list[str]:
    """Return the command that stands behind a ``--``; none is a usage error."""
    words: list[str] = args.words
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        args.parser.error(f"name a command: {args.parser.usage}")
    return words


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end what runs as Ctrl-C does: whatever was started on the way is ended, too."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
