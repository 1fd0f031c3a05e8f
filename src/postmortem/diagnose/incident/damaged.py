"""Files of a checkpoint that are cut or cannot be read, and who raised as he read one."""

from collections.abc import Iterator
from pathlib import PurePath

from postmortem.diagnose.incident.common import Document
from postmortem.diagnose.incident.events import Event, EventType
from postmortem.patterns import Pattern
from postmortem.report.model import Confidence, Evidence

_READER = Pattern(r"(?:^|/)(?:torch/serialization|safetensors/\w+|numpy/lib/\w*npyio\w*)\.py$")
_READS = Pattern(r"load|read|open|__init__|deserialize")


def of_damaged(document: Document) -> Iterator[Event]:
    """Yield the files of a checkpoint that were not read whole; which of several, nobody knows."""
    problems = {str(row["where"]).partition(": ")[0]: row for row in document["problems"]}
    for path, row in problems.items():
        yield Event(
            EventType.DAMAGED,
            f"{PurePath(path).name} is damaged: {row['what']}",
            "scan",
            path=path,
            confidence=Confidence.LIKELY if len(problems) == 1 else Confidence.POSSIBLE,
            evidence=(Evidence(path, str(row["what"])),),
            next_steps=(str(row["remedy"]),) if row.get("remedy") else (),
        )


def raised_in_reading(document: Document) -> bool:
    """Return whether what failed first in logs was raised by what reads a checkpoint."""
    label = (document.get("first_failure") or {}).get("label")
    return any(
        _READER.search(str(frame["file"])) and _READS.search(str(frame["function"]))
        for row in document.get("tracebacks", ())
        if label in row["labels"] and not row["survived"]
        for frame in row["frames"]
    )
