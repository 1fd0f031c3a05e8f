"""The schema of the JSON report: it takes what we write, and refuses what the contract forbids."""

import copy
import io
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from builders.reports import full_report
from builders.schema import SCHEMA, validate
from postmortem.render.json import render

DOCS = Path(__file__).parents[3] / "docs"
MADE = runpy.run_path(str(DOCS / "make_schema.py"))


@pytest.fixture
def document() -> dict[str, Any]:
    out = io.StringIO()
    render(full_report(), out)
    parsed: dict[str, Any] = json.loads(out.getvalue())
    return parsed


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_full_report_is_valid(document: dict[str, Any]) -> None:
    validate(document)


def test_fields_may_be_added(document: dict[str, Any]) -> None:
    document["new"] = 1
    document["threads"][0]["frames"][0]["new"] = 1
    validate(document)


def _set(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


def _drop(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        _drop("verdict"),
        _drop("threads"),
        _drop("inputs", 0, "truncated"),
        _set("schema", value="postmortem/2"),
        _set("diagnoses", 0, "role", value="cause"),
        _set("diagnoses", 0, "confidence", value="sure"),
        _set("threads", 0, "frames", 0, "pc", value=139_767_000),
        _set("threads", 0, "frames", 0, "kind", value="c++"),
        _set("modules", 0, "status", value="fine"),
        _set("modules", 0, "start", value="7f00"),
        _set("process", "env", value=[["A", "b"]]),
    ],
)
def test_what_the_contract_forbids_is_refused(
    document: dict[str, Any], change: Callable[[dict[str, Any]], None]
) -> None:
    broken = copy.deepcopy(document)
    change(broken)
    with pytest.raises(jsonschema.ValidationError):
        validate(broken)


def test_schema_and_page_are_written_from_the_shapes() -> None:
    again = "run python docs/make_schema.py"
    assert MADE["SCHEMA"].read_text(encoding="utf-8") == MADE["schema_text"](), again
    page = (DOCS / "report-schema.md").read_text(encoding="utf-8")
    assert page == MADE["page_text"](page), again
