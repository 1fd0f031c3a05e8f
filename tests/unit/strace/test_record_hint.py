"""--record-hint: the command that records what a question needs."""

import pytest

from postmortem.facts.call_query import parse
from postmortem.knowledge.record_hint import record_hint


def traced(*queries: str) -> set[str]:
    words = record_hint([parse(query) for query in queries]).split()
    assert words[:2] == ["strace", "-f"]
    assert words[-3:] == ["-o", "strace.txt", "COMMAND"]
    if "-e" not in words:
        return {"all"}
    names = words[words.index("-e") + 1].removeprefix("trace=").split(",")
    assert len(names) == len(set(names))
    return {name.removeprefix("?") for name in names}


FOLLOWED = {"openat", "close", "dup2", "fcntl", "clone", "execve", "chdir", "socketpair", "recvmsg"}


@pytest.mark.parametrize(
    ("query", "recorded", "left_out"),
    [
        ("ENOSPC", {"write", "fallocate", "mmap", "io_getevents"}, {"read", "poll", "%file"}),
        ("errno=EACCES path=/data/*", {"%file"}, {"write", "poll"}),
        ("ECONNREFUSED", {"connect", "poll", "getsockopt"}, {"fallocate"}),
        ("SIGKILL", {"kill", "tgkill", "pidfd_send_signal"}, {"write", "read", "mmap"}),
        ("SIGBUS", {"mmap", "ftruncate"}, {"write"}),
        ("fsync", {"fsync"}, {"write", "read"}),
        ("errno=EIO syscall=fsync", {"fsync"}, {"read"}),
        ("EMFILE", {"eventfd2", "pipe2", "accept4"}, {"write"}),
    ],
)
def test_what_is_recorded(query: str, recorded: set[str], left_out: set[str]) -> None:
    names = traced(query)
    assert FOLLOWED | recorded <= names
    assert not left_out & names


def test_several_questions_and_an_unknown_error() -> None:
    assert {"fsync", "kill", "mmap"} <= traced("fsync", "SIGBUS")
    assert traced("ENOMSG") == {"all"}
    assert traced("ENOSPC", "ENOMSG") == {"all"}
    assert {"write", "kill"} <= traced()


def test_names_that_not_every_machine_has_are_marked() -> None:
    """strace refuses an unknown name (`open` on aarch64) without a question mark."""
    command = record_hint([parse("ENOSPC")])
    for name in ("open", "dup2", "fork", "openat2", "close_range", "mkdir", "rename"):
        assert f"?{name}," in command
    for name in ("openat", "close", "write"):
        assert f",{name}," in command
