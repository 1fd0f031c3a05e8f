"""The JSON document: shape, determinism, and text that is always valid UTF-8."""

import io
import json
import math
from dataclasses import replace

import pytest

from builders.reports import full_report
from postmortem.render.json import render
from postmortem.report.model import Report

EMPTY = Report("core", (), "nothing is wrong", False, (), (), {})


def written(report: Report) -> str:
    out = io.StringIO()
    render(report, out)
    return out.getvalue()


def test_fields_stand_in_the_order_of_the_contract() -> None:
    document = json.loads(written(full_report()))
    assert list(document)[:7] == [
        "schema",
        "kind",
        "tool",
        "inputs",
        "verdict",
        "diagnoses",
        "problems",
    ]
    assert list(document)[-1] == "skipped"
    assert document["process"]["rank"] == 3
    assert document["diagnoses"][0]["role"] == "root"


def test_the_same_report_gives_the_same_bytes() -> None:
    assert written(full_report()) == written(full_report())


def test_bytes_that_are_no_text_become_escapes() -> None:
    text = written(replace(EMPTY, body={"env": {"A\udcff": "caf\udce9 \ud800"}}))
    text.encode("utf-8")
    assert json.loads(text)["env"] == {"A\\xff": "caf\\xe9 \\ud800"}


def test_printing_the_document_is_safe() -> None:
    evil = "\x1b[2J\x9b2J\x7f\u202e\u2028\U000e0041"
    text = written(replace(EMPTY, verdict=evil))
    assert all(c == "\n" or c.isprintable() for c in text)
    # A lone astral escape would be two: what JSON readers give back is what was there.
    assert json.loads(text)["verdict"] == evil


def test_no_number_is_outside_json() -> None:
    text = written(replace(EMPTY, body={"a": math.nan, "b": [math.inf, 1.5]}))
    assert json.loads(text)["a"] is None
    assert json.loads(text)["b"] == [math.inf, 1.5]
    assert "[1e999, 1.5]" in text  # a number in JSON; Infinity is none


def test_a_field_of_a_kind_cannot_replace_the_envelope() -> None:
    assert (
        json.loads(written(replace(EMPTY, body={"verdict": "other"})))["verdict"] == EMPTY.verdict
    )


def test_a_value_that_json_does_not_have_is_named() -> None:
    with pytest.raises(TypeError, match=r"report\.threads\[1\] is a set"):
        written(replace(EMPTY, body={"threads": [1, {2}]}))


def test_frames_that_threads_share_are_written_in_each() -> None:
    frame = {"function": "wait\x9b", "pc": "0x10", "locals": {"a": "1"}}
    other = {"function": "läuft", "pc": None}
    threads: list[dict[str, object]] = [
        {"tid": 1, "name": None, "frames": [frame, other]},
        {"tid": 2, "name": 'a "b"', "frames": [frame]},
        {"tid": 3, "frames": []},
        {"frames": [other], "tid": 4},
        {"frames": [other]},
    ]
    text = written(replace(EMPTY, body={"threads": threads}))
    assert json.loads(text)["threads"] == threads
    rows = text.split('"threads": [\n')[1].split("\n  ]")[0].split(",\n")
    plain = [json.dumps(row, ensure_ascii=False).replace("\x9b", "\\u009b") for row in threads]
    assert [row.strip() for row in rows] == plain
