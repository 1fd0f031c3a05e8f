"""Rules of one shape: a language's runtime ended the process; what they say is a table's."""

from postmortem.diagnose.core.citing import cite_frame, cite_words
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import is_nameless
from postmortem.diagnose.names import bare, clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings
from postmortem.diagnose.rule_rows import Row, Rows, rules_of
from postmortem.facts.crash import Panic
from postmortem.knowledge.lookup import lines_of

_INNERMOST = 32
_LINES_CITED = 3


def _finding(row: Row, means: Rows, crash: Crash, panic: Panic | None) -> Findings:
    if crash.kind not in lines_of(row["kinds"]):
        return
    names = [bare(frame.function) for frame in crash.crashed.frames[:_INNERMOST]]
    needed = lines_of(row.get("stops" if crash.kind is FaultKind.ABORT else "traps", ""))
    found = next((name for name in means if name in names), None)
    if needed and not any(name in names for name in needed):
        found = None
    said = panic if panic is not None and panic.language == row["language"] else None
    meant = found or (row.get("nameless") if said and is_nameless(crash.crashed) else None)
    if meant is None:
        return
    words = {"step": row["step"], **means[meant]}
    title, cause = words["title"], words["cause"]
    evidence = [cite_frame(crash.crashed, names.index(found))] if found is not None else []
    if said is not None:
        title = row["said"].format(title=title, head=said.head.removeprefix("Uncaught "))
        cause = f"{clip(said.head, 300)}: {cause}"
        evidence = evidence or [cite_words(crash.crashed, said)]
        lines = said.text.splitlines()[1 : 1 + _LINES_CITED]
        where = f"thread {crash.crashed.tid}"
        evidence += [Evidence(where, clip(line.strip(), 200)) for line in lines]
    yield Finding(
        title=title,
        cause=cause,
        # Without names on the stack, the words may be those of an exception that was caught before.
        confidence=Confidence.LIKELY if found is not None else Confidence.POSSIBLE,
        next_steps=tuple(step.format_map(words) for step in lines_of(row["next_steps"])),
        evidence=tuple(evidence),
    )


RULES = rules_of("runtime_ends.toml", "function", _finding)
