"""Which of several runs failed, as who starts them one after the other names it."""

from postmortem.facts.rank_logs import RankLogs
from postmortem.readers.ranklogs.above import texts_before
from postmortem.readers.signatures import Signatures

_NAMED = "run-named"
_CALLED = {"hydra": "job", "wandb": "run"}
_MOST_LINES = 2000


def failed_run(logs: RankLogs) -> str:
    """Return the name of the run that the last error of a lone program stands in; else nothing."""
    nameless = (f for f in logs.failures if f.work is None and logs.who(f.writer).rank is None)
    last = max(nameless, key=lambda f: f.line, default=None) if len(logs.writers) == 1 else None
    above = texts_before(last.file, last.begin_line, _MOST_LINES) if last is not None else []
    for row in reversed(Signatures.load("run sign").matches(above)):
        for match in row:
            if match.id == _NAMED:
                named = match.captures
                return " ".join((_CALLED.get(next(iter(named), ""), ""), *named.values())).lstrip()
    return ""
