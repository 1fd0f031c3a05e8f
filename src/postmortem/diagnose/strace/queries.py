"""What the rules ask of every log: errors that are looked at one by one, and calls."""

from postmortem.diagnose.strace.benign_errors import NETWORK, SERIOUS

SHOWN_ERRORS = (*SERIOUS, "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRINUSE")
"""Errors that mean harm so often that the report shows them whether a rule explains them or not."""

ASKED_ERRORS = (
    *dict.fromkeys((*SHOWN_ERRORS, *sorted(NETWORK))),
    "EPIPE", "EACCES", "EPERM", "ETXTBSY", "EBUSY", "ENAMETOOLONG", "ELOOP", "ENODEV", "ENXIO",
    "ENOLCK", "EDEADLK", "ENOEXEC",
)  # fmt: skip
"""Errors that a rule may explain; where none does they are noise until shown otherwise."""

ASKED_CALLS = (
    "kill", "tkill", "tgkill", "pidfd_send_signal", "rt_sigqueueinfo",
    "prlimit64", "setrlimit", "getrlimit", "connect", "bind", "flock", "sendmmsg", "execve",
    "execveat", "mount", "statfs", "fstatfs",
)  # fmt: skip
"""Calls whose success tells something too: who killed whom, which limit was set."""
