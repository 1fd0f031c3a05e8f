"""A lock file is there already.

What it means
    A program made a lock by creating a file that must not exist (O_CREAT|O_EXCL) and got
    EEXIST: another process holds the lock, or one that was killed has left it behind. Nobody
    removes such a file for the dead; who waits for it waits forever. PyTorch's builds of
    extensions (…/torch_extensions/…/lock) and many caches lock so.
How to be sure
    Look at the file's age, and whether its owner lives: ls -l, fuser -v.
What to do
    If no process that made it lives, remove the file and start again.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import shortened, where, who
from postmortem.diagnose.strace.severity import weigh_fate
from postmortem.facts.syscall_logs import Fate, Logs
from postmortem.facts.syscall_totals import ErrorCount
from postmortem.text import counted, shell_word


@rule(
    "https://man7.org/linux/man-pages/man2/open.2.html",
    "https://github.com/pytorch/pytorch/blob/main/torch/utils/file_baton.py",
)
def lock_file_exists(logs: Logs) -> Findings:
    rows = [row for row in logs.errors("EEXIST", "open", "openat", "link") if _is_lock(row)]
    for row in sorted(rows, key=lambda row: -row.count)[:1]:
        fate = logs.fate_of(row.pid, row.line)
        if fate is Fate.SURVIVED:
            continue
        weight = weigh_fate(fate, Confidence.LIKELY)
        path = row.path or ""
        yield Finding(
            title=f"waits for a lock file that is there already: {shortened(path, 50)}",
            cause=f"{who(row.pid)} could not make {path} (EEXIST, {counted(row.count, 'time')}): "
            f"another process holds this lock, or one that died has left it behind{weight.words}",
            confidence=weight.confidence,
            next_steps=(
                f"ls -l --time-style=full-iso {shell_word(path)} ; fuser -v {shell_word(path)}",
                f"if nobody holds it: rm {shell_word(path)}, and start again",
            ),
            evidence=(
                Evidence(where(row), clip(f"{who(row.pid)} {row.syscall} {path}: EEXIST", 200)),
            ),
            role=weight.role,
        )


def _is_lock(row: ErrorCount) -> bool:
    name = (row.path or "").rpartition("/")[2].lower()
    return "lock" in name or name.endswith((".lck", ".pid"))
