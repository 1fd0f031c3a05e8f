"""What a call was given, by the places of its arguments."""

from postmortem.facts.syscalls import Blocked, Match, TaskCall


def argument(call: Match | Blocked | TaskCall, place: int) -> str:
    """Return an argument as strace wrote it; empty where the log does not have it."""
    return call.arguments[place] if place < len(call.arguments) else ""


def flags(call: Match | Blocked, place: int) -> frozenset[str]:
    """Return the names that an argument is made of: of ``O_RDWR|O_CREAT`` both."""
    return frozenset(argument(call, place).split("|"))


def number(call: Match | Blocked, place: int) -> int | None:
    """Return an argument that is a whole number."""
    digits = argument(call, place)
    return int(digits) if digits.removeprefix("-").isdecimal() and len(digits) < 20 else None


def member(call: Match | Blocked, place: int, name: str) -> str:
    """Return a member of a structure as strace wrote it, a text with its quotes; the first of many.

    Of ``{rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}`` and ``rlim_cur`` that is ``8192*1024``.
    """
    _, found, rest = argument(call, place).partition(f"{name}=")
    end = 0
    if rest.startswith('"'):
        end = 1
        while end < len(rest) and rest[end] != '"':
            end += 2 if rest[end] == "\\" else 1
        return rest[: end + 1]
    while end < len(rest) and rest[end] not in ",}])":
        end += 1
    return rest[:end] if found else ""
