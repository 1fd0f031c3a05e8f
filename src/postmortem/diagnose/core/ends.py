"""Rules of one shape: how the process ended says all; what they say is a table's."""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.stacks import place
from postmortem.diagnose.rule import Confidence, Finding, Findings
from postmortem.diagnose.rule_rows import Row, Rows, rules_of
from postmortem.knowledge.lookup import lines_of


def _finding(row: Row, means: Rows, crash: Crash) -> Findings:
    if crash.kind not in lines_of(row["kinds"]):
        return
    host = crash.process.hostname
    told = means.get(crash.signal.name) or means.get(crash.kind) or {}
    words = {
        "said": crash.words,
        "place": place(crash.crashed),
        "signal": crash.signal.name,
        "host": host or "this machine",
        "of_host": f" of host {host}" if host else "",
        **told,
    }
    yield Finding(
        title=row["title"].format_map(words),
        cause=row["cause"].format_map(words),
        confidence=Confidence(told.get("confidence", row["confidence"])),
        next_steps=tuple(step.format_map(words) for step in lines_of(row["next_steps"])),
        evidence=(crash.cited, *(crash.frame() if row.get("frame", True) else ())),
    )


RULES = rules_of("ends.toml", "of", _finding)
