"""A shared library was nowhere.

What it means
    The dynamic loader looked for a library in every folder that it knows (RPATH,
    LD_LIBRARY_PATH, the cache, the defaults) and found it in none. Programs also look for
    libraries that they can do without (plugins, back-ends): then they go on.
How to be sure
    ldd PROGRAM | grep 'not found' ; LD_DEBUG=libs PROGRAM.
What to do
    Install it, or name its folder in LD_LIBRARY_PATH or with rpath. If the log's folders are
    those of another environment, activate the right one.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.diagnose.strace.benign_errors import first_lookup, missing_libraries
from postmortem.diagnose.strace.calls import where, who
from postmortem.diagnose.strace.severity import Weight, weigh_fate
from postmortem.facts.syscall_logs import Fate, Logs
from postmortem.facts.syscall_totals import ErrorCount
from postmortem.text import counted, shell_word

_LOADER_FAILED = 127


@rule("https://man7.org/linux/man-pages/man8/ld.so.8.html")
def library_not_found(logs: Logs) -> Findings:
    for log in logs.logs:
        for name, folders in missing_libraries(log)[:3]:
            row = first_lookup(log, name)
            if row is None:
                continue
            weight = _weight(logs, row, name)
            count = counted(len(folders), "folder")
            yield Finding(
                title=f"the library {clip(name, 60)} was never found, in {count}",
                cause=f"{who(row.pid)} looked for {name} in {count} ({', '.join(folders[:3])}"
                f"{' …' if folders[3:] else ''}) and found it in none{weight.words}",
                confidence=weight.confidence,
                next_steps=(
                    f"find / -name {shell_word(name + '*')} -not -path '/proc/*' 2>/dev/null",
                    "name its folder in LD_LIBRARY_PATH, or install the package that has it",
                    "echo $LD_LIBRARY_PATH in the job: did a module or an environment get lost?",
                ),
                evidence=(
                    Evidence(where(row), clip(f"{who(row.pid)} {row.syscall} {row.path}", 200)),
                ),
                role=weight.role,
            )


def _weight(logs: Logs, row: ErrorCount, name: str) -> Weight:
    """Most libraries that are nowhere are ones that a program can do without.

    It could not where it says so, or where the loader ended it (ld.so(8) exits with 127).
    """
    task = logs.task(row.pid, row.line)
    fate = logs.fate_of(row.pid, row.line)
    ended = task.ending if task is not None else None
    named = task is not None and name in "".join(task.last_words)
    if named or (ended is not None and ended.code == _LOADER_FAILED):
        return weigh_fate(fate, Confidence.LIKELY)
    if fate is Fate.FAILED and ended is not None and ended.code:
        return weigh_fate(fate, Confidence.POSSIBLE)
    went_on = "; the log does not say whether it needed it"
    return Weight(Role.CONTRIBUTING, Confidence.POSSIBLE, went_on)
