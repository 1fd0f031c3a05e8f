"""A program was in no folder of PATH.

What it means
    execve gave ENOENT for a program in every folder of PATH, and no process ran it later; or a
    shell looked for it there and said that it found none. A
    script whose first line (#!) names an interpreter that is not there gives the same error for
    a file that exists, and so does a binary whose loader (ld-linux) is missing: another C
    library, another architecture's container.
How to be sure
    type NAME in the job's shell; head -1 FILE; file FILE.
What to do
    Install it, or put its folder into PATH: builds of PyTorch extensions need ninja, g++ and
    nvcc.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import where, who
from postmortem.diagnose.strace.recording_limits import only
from postmortem.diagnose.strace.severity import weigh_fate
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscall_totals import ErrorCount
from postmortem.knowledge import stderr_text
from postmortem.text import counted, shell_word

_LOOKS = (
    "stat", "newfstatat", "fstatat64", "stat64", "statx", "access", "faccessat", "faccessat2",
)  # fmt: skip


@rule("https://man7.org/linux/man-pages/man2/execve.2.html")
def program_not_found(logs: Logs) -> Findings:
    ran = {
        (match.target.path or "").rpartition("/")[2]
        for match in logs.asked("execve", "execveat")
        if match.errno is None
    }
    missing: dict[str, list[ErrorCount]] = {}
    found = not any(only(log, failed=True) for log in logs.logs)  # of -Z nobody sees what ran
    for row in logs.errors("ENOENT", "execve", "execveat"):
        if row.path and found:
            missing.setdefault(row.path.rpartition("/")[2], []).append(row)
    for name, rows in [item for item in missing.items() if item[0] not in ran][:2]:
        row = rows[0]
        task = logs.first(row.pid)
        parent = None if task is None else task.ppid
        yield _finding(logs, name, rows, parent or row.pid)
    yield from _said(logs, ran | set(missing))


def _said(logs: Logs, known: set[str]) -> Findings:
    """Yield programs for which shells only looked: they run what they found."""
    looked = [row for row in logs.errors("ENOENT", *_LOOKS) if "/" in (row.path or "")]
    for task in logs.tasks():
        name = stderr_text.program_not_found("".join(task.last_words))
        if name is None or name in known:
            continue
        rows = [row for row in looked if (row.path or "").endswith("/" + name)]
        if rows and task.ending is not None:
            yield _finding(logs, name, rows, task.ppid or task.pid)
            return


def _finding(logs: Logs, name: str, rows: list[ErrorCount], pid: int) -> Finding:
    row = rows[0]
    weight = weigh_fate(logs.fate_of(pid, row.line), Confidence.LIKELY)
    places = list(dict.fromkeys(one.path or "" for one in rows))
    count = counted(len(places), "place")
    there = _there(logs, places)
    title = f"the program {clip(name, 50)} was not found, in {count}"
    cause = (
        f"{who(row.pid)} {'looked for' if row.syscall in _LOOKS else 'tried to run'} {name} in "
        f"{count} ({', '.join(places[:3])}{' …' if places[3:] else ''}) and it was in none"
        f"{'' if row.syscall in _LOOKS else ', or its interpreter is missing'}"
    )
    if there is not None:
        title = f"{clip(name, 40)} is there, but the interpreter that it names is not"
        cause = (
            f"execve of {there} by {who(row.pid)} gave ENOENT, and yet that file is there: "
            "what runs it is missing, the interpreter of its first line (#!) or its loader"
        )
    elif len(places) == 1:
        title = f"the program {clip(name, 40)} was not found, or the interpreter that it names"
    return Finding(
        title=title,
        cause=f"{cause}{weight.words}",
        confidence=weight.confidence,
        next_steps=(
            f"head -c 80 {shell_word(there or places[0])} : if it is a script, is its interpreter "
            "there? Windows line ends (CR) spoil its name too",
            f"type {shell_word(clip(name, 50))} ; echo $PATH : in the job, not on the login node",
        )[:: 1 if len(places) == 1 or there else -1],
        evidence=tuple(
            Evidence(where(r), clip(f"{who(r.pid)} {r.syscall} {r.path}: ENOENT", 200))
            for r in rows[:3]
        ),
        role=weight.role,
    )


def _there(logs: Logs, places: list[str]) -> str | None:
    """Return the one of some places at which a file is in spite of the ENOENT.

    Somebody opened it, or bash said that it cannot execute it: where there is none it says that.
    """
    words = ["".join(task.last_words) for task in logs.tasks()]
    refused = [file for said in words for file in stderr_text.programs_not_run(said)]
    opened = {file.path for log in logs.logs for file in log.files if file.opens}
    for path in places:
        if path in opened or any(one.endswith(path) for one in refused):
            return path
        tail = path.removeprefix(".")
        if path.startswith("./") and any(one.endswith(tail) for one in opened):
            return path
    return None
