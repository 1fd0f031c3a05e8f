"""The port cannot be listened at: another process has it.

What it means
    `EADDRINUSE`, "Address already in use": often a process of an earlier run that did not end,
    or another job of the same node with the same MASTER_PORT.
How to be sure
    `ss -ltnp 'sport = :PORT'` names who listens; as root it names other users' processes too.
What to do
    End that process, or take another port on all nodes.
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.net import Holder, NetCheck


@rule()
def port_in_use(seen: NetCheck) -> Findings:
    target = seen.target
    if target is None or target.holder is None or not target.ours:
        return
    holder = target.holder
    who = _who(holder)
    yield Finding(
        title=f"port {target.port} is in use by {who}",
        cause=f"Nobody else can listen at {target.place} until that process has ended.",
        confidence=Confidence.CERTAIN,
        next_steps=(
            f"ps -o pid,user,lstart,cmd -p {holder.pid}   and end it if it is of an old run"
            if holder.pid is not None
            else f"sudo ss -ltnp 'sport = :{target.port}'   names the process",
            f"or take another MASTER_PORT than {target.port} on all nodes",
        ),
        evidence=(Evidence(f"port {target.port}", f"{holder.address}: {who}"),),
        about=Subject(pid=holder.pid, path=target.place, errno="EADDRINUSE"),
    )


def _who(holder: Holder) -> str:
    if holder.pid is not None:
        return f"pid {holder.pid} of {holder.user} ({holder.command[:80]})"
    if holder.command:
        return holder.command
    return f"a process of {holder.user} that we may not see"
