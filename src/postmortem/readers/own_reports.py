"""Reports that this program wrote as JSON: evidence like any other."""

import json
from collections.abc import Iterator
from typing import Any

from postmortem.errors import EvidenceError
from postmortem.facts.inventory import Inventory, Kind, Reading, Result
from postmortem.readers.regular import read_regular, unread
from postmortem.readers.report_shape import misshapen

LARGEST = 256 << 20
_SCHEMA = "postmortem/1"
_NEEDED = ("kind", "verdict", "diagnoses", "inputs")


def own_report(text: str | bytes, where: str) -> dict[str, Any]:
    """Return a report; raises EvidenceError for what is none, or is not whole."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(where, f"is not a complete JSON document: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise EvidenceError(where, f"is not a report of the schema {_SCHEMA}")
    missing = [name for name in _NEEDED if name not in document]
    if missing:
        raise EvidenceError(where, f"is a report without {', '.join(missing)}")
    return document


def read_own_report(path: str) -> dict[str, Any] | EvidenceError:
    """Return the report in a file, or why it cannot be used."""
    try:
        document = own_report(read_regular(path, most=LARGEST), path)
        wrong = misshapen(document)
        return EvidenceError(path, f"is not as our reports are: {wrong}") if wrong else document
    except OSError as error:
        return EvidenceError(path, unread(error))
    except EvidenceError as error:
        return error


def own_results(found: Inventory) -> Iterator[Result]:
    """Yield the reports among what was found, as what a reader said."""
    for item in found.of(Kind.DOCUMENT):
        read = read_own_report(item.path)
        reading = Reading("report", (), (item.path,))
        if isinstance(read, EvidenceError):
            yield Result(reading, None, read.what)
        else:
            yield Result(reading, read, None)
