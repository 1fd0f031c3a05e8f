"""A unix socket was not where a program looked for it.

What it means
    connect() to the path of a unix socket gave ENOENT: the server that makes it (an agent, a
    database, Docker, an MPI daemon) has not begun, has ended and removed it, uses another path,
    or lives in another container or mount namespace.
How to be sure
    ls -l of the path in the same container; ss -xlp lists the unix sockets that are listened
    at.
What to do
    Start the server, give the program the right path (an environment variable mostly), or mount
    the socket's folder into the container.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.diagnose.strace.benign_errors import NEVER_THERE
from postmortem.diagnose.strace.calls import shortened, where, who
from postmortem.diagnose.strace.peers import failed_connections
from postmortem.diagnose.strace.severity import weigh_fate
from postmortem.facts.syscall_logs import Fate, Logs
from postmortem.text import shell_word


@rule("https://man7.org/linux/man-pages/man7/unix.7.html")
def no_such_socket(logs: Logs) -> Findings:
    failed = [one for one in failed_connections(logs, "ENOENT") if _counts(one.peer)]
    for one in reversed(failed):
        fate = logs.fate_of(one.pid, one.line)
        if fate in (Fate.SURVIVED, Fate.FAILED_LATER):
            continue
        weight = weigh_fate(fate, Confidence.LIKELY)
        folder = shell_word(one.peer.rpartition("/")[0] or "/")
        yield Finding(
            title=f"no socket at {shortened(one.peer, 60)}: its server is not running here",
            cause=f"{who(one.pid)} could not connect to {one.peer} (ENOENT): nothing has this "
            f"name{weight.words}",
            confidence=weight.confidence,
            next_steps=(
                f"ls -l {folder} ; ss -xlp : in the same container, does a server listen there?",
                "start the server first, or correct the path that the program was given",
            ),
            evidence=(
                Evidence(where(one), clip(f"{who(one.pid)} connect to {one.peer}: ENOENT", 200)),
            ),
            role=weight.role,
        )
        return


def _counts(peer: str) -> bool:
    return peer.startswith("/") and not peer.startswith(NEVER_THERE)
