"""Who made a call, in words."""

# They answer a question by their status.
ANSWERING = frozenset({
    "grep", "egrep", "fgrep", "test", "[", "diff", "cmp", "which", "pgrep", "expr", "false",
    "getent", "lsmod", "mountpoint", "systemctl", "type",
})  # fmt: skip
"""Programs that exit with 1 where nothing failed."""


def who(pid: int) -> str:
    """Return ``"pid 7"``; a log of one task alone does not tell its number."""
    return f"pid {pid}" if pid else "the process"
