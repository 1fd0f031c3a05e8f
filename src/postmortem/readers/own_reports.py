"""Reports that this program wrote as JSON: evidence like any other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from postmortem.errors import EvidenceError
from postmortem.readers.regular import read_regular
from postmortem.readers.report_shape import misshapen

LARGEST = 256 << 20
_SCHEMA = "postmortem/1"


def own_report(text: str | bytes, where: str) -> Mapping[str, Any]:
    """Return a report; raises EvidenceError for what is none, or is not whole."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(where, f"is not a complete JSON document: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise EvidenceError(where, f"is not a report of the schema {_SCHEMA}")
    wrong = misshapen(document)
    if wrong is not None:
        raise EvidenceError(where, f"is not as our reports are: {wrong}")
    return document


def read_own_report(path: str) -> Mapping[str, Any] | EvidenceError:
    """Return the report in a file, or why it cannot be used."""
    try:
        return own_report(read_regular(path, most=LARGEST), path)
    except OSError as error:
        return EvidenceError(path, f"cannot be read: {error.strerror}")
    except EvidenceError as error:
        return error
