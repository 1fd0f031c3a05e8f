"""Whether a thread stood in the system call that sends a signal.

siginfo alone does not tell: a process may send itself any siginfo (rt_tgsigqueueinfo(2)).
"""

from postmortem.facts.threads import Thread

_SENDING = (62, 129, 200, 234, 297)
"""kill, rt_sigqueueinfo, tkill, tgkill, rt_tgsigqueueinfo on x86-64, whose threads keep the number
of the call that they are in as `orig_rax`."""


def is_sending(thread: Thread | None) -> bool:
    """Return whether a thread was in kill() or its like; False too where registers do not tell."""
    return thread is not None and thread.register("orig_rax") in _SENDING
