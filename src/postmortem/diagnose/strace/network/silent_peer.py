"""A process waited for a peer that said nothing.

What it means
    When the log ended, or somebody killed the process, it was in a call on a socket that has no
    time limit: it waited for data (recv, read), for somebody to connect (accept), for an answer
    to its connect, or for room to send. The connection is not broken; the other end does not
    act: it hangs itself, was stopped, is on a host that went away without a word, or never
    began. Servers wait so by nature. Or the wait had a time limit and it came: the process had
    asked, nothing came back, and it ended soon after. No call fails then.
How to be sure
    py-spy dump or gdb at the other end; ss -tpi shows both queues and the last time something
    came.
What to do
    Look at the process at the other end. Give sockets a time limit, so that a silence becomes
    an error with a name.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import place, where, who
from postmortem.diagnose.strace.waits import (
    awaited_socket,
    cite_waits,
    said_to_wait,
    waits_for_ever,
)
from postmortem.facts.syscall_logs import Fate, Logs
from postmortem.facts.syscalls import Task
from postmortem.knowledge.stderr_text import ran_out_of_time
from postmortem.text import counted

_DESKTOP = ("/.X11-unix/", "/wayland-", "/dbus-", "/bus")


@rule(
    "https://man7.org/linux/man-pages/man7/socket.7.html",
    "https://man7.org/linux/man-pages/man2/recv.2.html",
)
def silent_peer(logs: Logs) -> Findings:
    waits = [task for task in logs.stuck() if _waits_for_peer(task) and waits_for_ever(task)]
    if not waits:
        yield from _in_vain(logs)
        return
    first = waits[0]
    awaited = awaited_socket(first)
    assert first.blocked is not None
    assert awaited is not None
    peer = awaited.target.words
    accepts = first.blocked.syscall.startswith("accept")
    ends = ", ".join(f"{who(holder.pid)}" for holder in awaited.holders[:3])
    other = f"; {ends} of this log has the other end" if ends else ""
    others = (
        ""
        if len(waits) == 1
        else f", and {counted(len(waits) - 1, 'more task waits', 'more tasks wait')} so"
    )
    yield Finding(
        title=f"{who(first.pid)} waited in {first.blocked.syscall} "
        f"{'for somebody to connect to' if accepts else 'for the silent peer'} {clip(peer, 40)}",
        cause=f"{said_to_wait(first)} without a time limit on {peer}{others}; nothing came "
        f"{'to it' if accepts else 'from the other end'} until the end of the log{other}",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            f"ss -tnpi : is the connection to {clip(peer, 40)} there, and what waits in its "
            "queues?",
            _look_at([holder.pid for holder in awaited.holders[:3] if holder.pid is not None]),
        ),
        evidence=cite_waits(waits),
    )


def _waits_for_peer(task: Task) -> bool:
    """Return whether a task waits for an answer; of a desktop's servers it waits for its user."""
    awaited = awaited_socket(task)
    return awaited is not None and not any(
        name in (awaited.target.path or awaited.target.words) for name in _DESKTOP
    )


def _look_at(pids: list[int]) -> str:
    if pids:
        told = " ".join(map(str, pids))
        return f"while they hang: postmortem hang {told} : what does the other end wait for itself?"
    return "postmortem hang PID of the process at the other end: what does it wait for itself?"


def _in_vain(logs: Logs) -> Findings:
    """Yield what a process had asked that ended soon after a wait for the answer ran out."""
    for log in logs.logs:
        silent = [
            one
            for one in log.connections
            if one.silent_waits
            and one.asked
            and one.result in ("connected", "accepted")
            and not one.peer.endswith(":53")
            and logs.fate_of(one.pid, one.silent_line) is Fate.FAILED
        ]
        if not silent:
            continue
        last = max(silent, key=lambda one: one.silent_line)
        task = logs.task(last.pid, last.silent_line)
        named = task is not None and ran_out_of_time("".join(task.last_words))
        lasted = f" ({last.silent_seconds:.1f} s)" if last.silent_seconds >= 0.05 else ""
        count = counted(last.silent_waits, "wait")
        said = "; it said so itself" if named else ""
        yield Finding(
            title=f"{who(last.pid)} got no answer from {clip(last.peer, 60)} in time",
            cause=f"{who(last.pid)} had sent something to {last.peer} (descriptor {last.fd}); "
            f"{count} for the answer ran out{lasted}, nothing came, and it ended soon "
            f"after{said}",
            confidence=Confidence.LIKELY if named else Confidence.POSSIBLE,
            next_steps=(
                f"what did the process behind {clip(last.peer, 40)} do meanwhile? its log, or "
                "postmortem hang PID there",
                "if it is only slow: give the wait a longer time limit",
            ),
            evidence=(
                Evidence(
                    place(last.file, last.silent_line),
                    clip(f"{who(last.pid)} {last.silent_text}", 200),
                ),
                Evidence(where(last), f"connection to {last.peer}: {last.result}"),
            ),
        )
        return
