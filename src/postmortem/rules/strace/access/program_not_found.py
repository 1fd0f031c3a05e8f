"""A program was in no folder of PATH."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import ErrorCount
from postmortem.report.model import Confidence, Evidence, Role
from postmortem.rules.names import clip
from postmortem.rules.rule import Finding, rule
from postmortem.rules.strace.calls import place_of
from postmortem.rules.strace.weighing import weigh_fate
from postmortem.rules.strace.who import who


@rule(
    role=Role.ROOT,
    references=("https://man7.org/linux/man-pages/man2/execve.2.html",),
)
def program_not_found(logs: Logs) -> Iterator[Finding]:
    """A program was in no folder of PATH.

    What it means
        execve gave ENOENT for a program in every folder of PATH, and no process ran it later. A
        script whose first line (#!) names an interpreter that is not there gives the same error for
        a file that exists, and so does a binary whose loader (ld-linux) is missing: another C
        library, another architecture's container.

    How to be sure
        type NAME in the job's shell; head -1 FILE; file FILE.

    What to do
        Install it, or put its folder into PATH: builds of PyTorch extensions need ninja, g++ and
        nvcc.
    """
    ran = {
        (match.target.path or "").rpartition("/")[2]
        for match in logs.asked("execve", "execveat")
        if match.errno is None
    }
    missing: dict[str, list[ErrorCount]] = {}
    for row in logs.errors("ENOENT", "execve", "execveat"):
        if row.path:
            missing.setdefault(row.path.rpartition("/")[2], []).append(row)
    for name, rows in [item for item in missing.items() if item[0] not in ran][:2]:
        row = rows[0]
        parent = next((task.ppid for task in logs.tasks() if task.pid == row.pid), None)
        weight = weigh_fate(logs.fate_of(parent or row.pid, row.line), Confidence.LIKELY)
        count = "1 place" if len(rows) == 1 else f"{len(rows)} places"
        yield Finding(
            title=f"the program {clip(name, 50)} was not found, in {count}",
            cause=(
                f"{who(row.pid)} tried to run {name} in {count} "
                f"({', '.join(r.path or '' for r in rows[:3])}{' …' if rows[3:] else ''}) and "
                "it was "
                f"in none, or its interpreter is missing{weight.words}"
            ),
            confidence=weight.confidence,
            next_steps=(
                f"type {clip(name, 50)} ; echo $PATH : in the job, not on the login node",
                f"head -c 80 {rows[0].path} : if it is a script there, is its interpreter?",
            ),
            evidence=tuple(
                Evidence(place_of(r), clip(f"{who(r.pid)} {r.syscall} {r.path}: ENOENT", 200))
                for r in rows[:3]
            ),
            role=weight.role,
        )
