"""Answers may be folded in any order and in any groups."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem.analyses.fleet import report_on
from postmortem.cli.main import main
from postmortem.facts.fleet import Fleet, Part, merge, merge_all
from postmortem.facts.host_names import NoHosts, expand, short
from postmortem.fleet.answers import part_of
from postmortem.fleet.engines import Engine, Said
from postmortem.present.card import card_of

FRAMES = ["step at train.py:41", "all_reduce at distributed.py:9", "load at data.py:7"]


def hang(ranks: list[int], places: list[str], verdict: str = "rank 3 is stuck") -> dict[str, Any]:
    def at(place: str) -> list[int]:
        return [rank for rank, one in zip(ranks, places, strict=True) if one == place]

    classes = [
        {
            "labels": [
                f"rank {rank}" for rank, at in zip(ranks, places, strict=True) if at == place
            ],
            "ranks": [rank for rank, at in zip(ranks, places, strict=True) if at == place],
            "doing": "",
            "frames": [place, "main at train.py:99"],
        }
        for place in sorted(set(places))
    ]
    return {
        "schema": "postmortem/1",
        "kind": "hang",
        "verdict": verdict,
        "outcome": "unknown",
        "diagnoses": [],
        "inputs": [],
        "stacks": {"samples": 2, "moved": [], "classes": classes},
    }


def cores(hashes: list[str]) -> dict[str, Any]:
    rows = [
        {"hash": one, "summary": f"SIGSEGV in {one}", "count": 2, "ranks": [1], "newest": "/c/core"}
        for one in hashes
    ]
    unread = [{"where": f"/c/{one}", "what": "is cut off at 12 bytes"} for one in hashes]
    found = {**hang([], []), "kind": "cores", "signatures": rows, "stacks": None}
    return found | {"problems": unread}


def said(node: str, report: object) -> Said:
    return Said(node, json.dumps(report).encode(), "", 1)


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    count = draw(st.integers(1, 12))
    found = []
    for number in range(count):
        node = f"n{number:03}"
        kind = draw(st.sampled_from(["hang", "cores", "rubbish", "late"]))
        if kind == "hang":
            places = draw(st.lists(st.sampled_from(FRAMES), min_size=1, max_size=4))
            ranks = [number * 8 + index for index in range(len(places))]
            verdict = draw(st.sampled_from(["rank 3 is stuck", "rank 4 is stuck", "all wait"]))
            found.append(part_of(said(node, hang(ranks, places, verdict)), ("hang",)))
        elif kind == "cores":
            hashes = draw(st.lists(st.sampled_from("abc"), unique=True))
            found.append(part_of(said(node, cores(hashes)), ("cores",)))
        else:
            out = b"}{" if kind == "rubbish" else b""
            found.append(part_of(Said(node, out, "", 1 if out else None), ("hang",)))
    return found


@given(parts(), st.randoms(use_true_random=False), st.integers(0, 12))
def test_any_order_and_any_groups(rows: list[Part], order: random.Random, cut: int) -> None:
    whole = merge(rows)
    assert merge([merge(rows[:cut]), merge(rows[cut:])]) == whole
    assert merge([merge(rows[cut:]), merge(rows[:cut])]) == whole
    mixed = rows[:]
    order.shuffle(mixed)
    assert merge(mixed) == whole
    assert merge([whole, Part()]) == whole == merge([whole])
    assert merge_all(iter(mixed)) == whole


@given(parts())
def test_nobody_is_lost(rows: list[Part]) -> None:
    whole = merge_all(rows)
    assert len(whole.answered) + len(whole.silent) == len(rows)
    grouped = [node for group in whole.groups for node in group.nodes]
    assert sorted(grouped) == list(whole.answered)


def fleet_of(nodes: int, odd: int) -> Iterator[Part]:
    for number in range(nodes):
        if number == 100:
            yield part_of(Said("n00100", b"", "", None), ("hang",))
        elif number == 200:
            yield part_of(Said("n00200", b"\xff\x00 rubbish", "", 0), ("hang",))
        else:
            ranks = [number * 8 + local for local in range(8)]
            places = [FRAMES[2] if rank == odd else FRAMES[1] for rank in ranks]
            yield part_of(said(f"n{number:05}", hang(ranks, places)), ("hang",))


def test_65536_ranks() -> None:
    part = merge_all(fleet_of(8192, 40_007))
    report = report_on(Fleet("hang", "ssh", 8192, part))
    assert report.failed
    first = report.diagnoses[0]
    assert first.id == "odd_ranks"
    assert first.about is not None
    assert (first.about.rank, first.about.host) == (40_007, "n05000")
    silent = [one for one in report.diagnoses if one.id == "node_silent"]
    assert {one.about.host for one in silent if one.about} == {"n00100", "n00200"}
    assert sum(one.count for one in part.standing) == 8190 * 8


def test_a_fleet_that_does_not_answer_is_not_healthy() -> None:
    healthy = {**hang([0], FRAMES[:1]), "outcome": "healthy", "stacks": None}
    one = part_of(said("a", healthy), ("hang",))
    assert report_on(Fleet("hang", "ssh", 1, one)).outcome == "healthy"
    both = merge([one, part_of(Said("b", b"", "", None), ("hang",))])
    assert report_on(Fleet("hang", "ssh", 2, both)).outcome == "failed"
    ways = ("Could not resolve hostname c", "Connection refused")
    none = merge(
        [
            part_of(Said(name, b"", why, 255), ("hang",))
            for name, why in zip("cd", ways, strict=True)
        ]
    )
    assert report_on(Fleet("hang", "ssh", 2, none)).verdict.startswith("0 of 2 nodes answered; ")
    nobody = Part()
    assert report_on(Fleet("hang", "ssh", 2, nobody)).outcome == "unknown"


@pytest.mark.parametrize(
    "answer",
    [
        Said("n", b"", "", None),
        Said("n", b"{", "", None),
        Said("n", b"", "Permission denied (publickey,password).", 255),
        Said("n", b"", "sh: postmortem: not found", 127),
        Said("n", b"", "n: postmortem: no process 7\nhint: pgrep\nclush: n: exited", 3),
        Said("n", b"", "", 124),
        Said("n", b"Welcome to node n!", "", 0),
        Said("n", b"[" * 100_000, "", 0),
        said("n", {**hang([], []), "kind": "doctor"}),
        said("n", {**hang([], []), "verdict": 7}),
        said("n", {**hang([], []), "stacks": {"classes": [7]}}),
        said("n", {**hang([], []), "signatures": [{"count": -1}]}),
    ],
)
def test_nodes_without_a_report(answer: Said, prose: Prose) -> None:
    part = part_of(answer, ("hang",))
    assert part.answered == ()
    prose(part.silent[0].why)


@given(
    st.dictionaries(
        st.sampled_from(["verdict", "diagnoses", "stacks", "signatures", "outcome"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["classes", "ranks", "id", "frames"]), inner)
            ),
            max_leaves=8,
        ),
    )
)
def test_hostile_reports_never_raise(fields: dict[str, object]) -> None:
    part = part_of(said("n", {**hang([], []), **fields}), ("hang",))
    assert len(part.answered) + len(part.silent) == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b a", ["a", "b"]),
        ("node[003-005,9],login1", ["node003", "node004", "node005", "node9", "login1"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("10.0.0.[1-2]", ["10.0.0.1", "10.0.0.2"]),
        ("root@h-1", ["root@h-1"]),
    ],
)
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    assert sorted(expand(text)) == sorted(names)


@pytest.mark.parametrize(
    "text", ["", " , ", "n[1", "n1]", "n[a]", "n[5-1]", "n[0-999999999]", "-oProxyCommand=x", "a;b"]
)
def test_no_lists_of_hosts(text: str) -> None:
    with pytest.raises(NoHosts):
        expand(text)


@given(st.sets(st.integers(0, 9999), min_size=1, max_size=6))
def test_short_names_can_be_expanded(numbers: set[int]) -> None:
    names = tuple(f"n{number:04}" for number in sorted(numbers))
    assert tuple(sorted(expand(short(names)))) == names


def test_what_nodes_could_not_read_is_told_once_for_each_reason(prose: Prose) -> None:
    parts = [part_of(said(node, cores(["a", "b"])), ("cores",)) for node in ("n1", "n2")]
    (told,) = report_on(Fleet("collect", "ssh", 2, merge(parts))).problems
    assert told.where == "n1: /c/a"
    prose(told.what)


@pytest.mark.parametrize(
    ("engine", "look"), [("ssh", "ssh "), ("kubectl", "kubectl get"), ("srun", "sinfo ")]
)
def test_the_card_names_who_is_silent_and_why_before_what_others_say(
    engine: str, look: str
) -> None:
    bad = part_of(said("n2", hang([3], ["step at t.py:4"])), ("hang",))
    lost = [part_of(Said(name, b"", "no route", 255), ("hang",)) for name in ("n0", "n1")]
    report = report_on(Fleet("hang", engine, 3, merge([bad, *lost])))
    assert report.failed
    card = card_of(report)
    assert card.rows == (("n[0-1]", "ended with 255: no route"),)
    (silent,) = (one for one in report.diagnoses if one.id == "node_silent")
    assert silent.next_steps[0].startswith(look)


def test_options_of_the_report_may_stand_behind_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(engine: object, what: str, words: list[str], folder: object) -> object:
        asked.append(words)
        return Fleet(what, "ssh", 1, Part()), ()

    monkeypatch.setattr("postmortem.fleet.commands.run", run)
    begin = ["fleet", "-w", "n0", "--engine", "ssh"]
    out = tmp_path / "r.json"
    main([*begin, "hang", "--job", "7", "--json", "-o", str(out), "--no-redact"])
    assert (json.loads(out.read_text())["kind"], asked) == (
        "fleet",
        [["--job", "7", "--no-redact"]],
    )
    assert main([*begin, "hang", "-v"]) == 2
    assert len(asked) == 1


def test_net_of_hosts_is_that_of_the_fleet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[object, ...]] = []

    def run(engine: Engine, what: str, words: list[str], folder: object) -> object:
        asked.append((engine.nodes, what, words))
        return Fleet(what, "ssh", 2, Part()), ()

    monkeypatch.setattr("postmortem.fleet.commands.run", run)
    main(["net", "-w", "n[0-1]", "--no-torch", "--wait", "5", "--json"])
    assert json.loads(capsys.readouterr().out)["kind"] == "fleet"
    words = ["--timeout=3.0", "--wait=5.0", "--no-torch"]
    assert asked == [(("n0", "n1"), "net", words)]
    assert main(["net", "-w", "n0", "--node", "0"]) == 2
    assert main(["fleet", "net", "--help"]) == 0
