"""A host of the job failed, says its scheduler.

What it means
    Slurm's daemon of that host did not answer any more: the host crashed, was rebooted, lost
    its network, or its daemon did. No rank of the job is at fault.
How to be sure
    srun names it: "Node failure on gpu-7"; slurmctld's log has the time at which it was set
    down.
What to do
    Leave that host out, and look into its own logs for what happened.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import HostFailed
from postmortem.diagnose.ranks.phrases import cite, ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.text import shell_word


@rule("https://slurm.schedmd.com/troubleshoot.html")
def node_failed(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, HostFailed):
        return
    host = clip(blame.cause.host, 60)
    there = f" {ranks_words(blame.first)} ran there." if blame.first else ""
    named = shell_word(host)
    yield Finding(
        title=f"the host {host} failed, says Slurm",
        cause=f"Slurm lost the host {host} and ended the job: a crash or a reboot of it, its "
        f"network, or Slurm's daemon there.{there[:2].upper()}{there[2:]}",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"sinfo -R -n {named}; scontrol show node {named}  say since when, and what the "
            "administrators wrote",
            f"journalctl -k -b -1 on {host}, or its BMC's log (ipmitool sel list): give it to "
            "postmortem logs beside these",
            f"sbatch --exclude={named} until it is repaired; --requeue starts such a job again",
        ),
        evidence=cite(blame),
    )
