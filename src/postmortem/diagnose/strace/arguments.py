"""What a call was given, by the places of its arguments."""

from postmortem.facts.syscalls import Blocked, Match


def argument(call: Match | Blocked, place: int) -> str:
    """Return an argument as strace wrote it; empty where the log does not have it."""
    return call.arguments[place] if place < len(call.arguments) else ""


def flags(call: Match | Blocked, place: int) -> frozenset[str]:
    """Return the names that an argument is made of: of ``O_RDWR|O_CREAT`` both."""
    return frozenset(argument(call, place).split("|"))


def number(call: Match | Blocked, place: int) -> int | None:
    """Return an argument that is a whole number."""
    digits = argument(call, place)
    return int(digits) if digits.removeprefix("-").isdecimal() and len(digits) < 20 else None
