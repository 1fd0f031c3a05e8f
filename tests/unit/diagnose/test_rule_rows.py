"""Rules that are rows of a table: what their texts name is there, and every type is one of ours."""

from string import Formatter
from typing import Any, get_args

import pytest

from postmortem.diagnose.jam import jam
from postmortem.diagnose.ranks import causes
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import Doubt, NamedBy, StartupFault
from postmortem.diagnose.ranks.decided import _words
from postmortem.knowledge.lookup import lines_of, load_table

TABLE = load_table("decided.toml")
ROWS = [row for row in TABLE["rule"] if "culprits" not in row]
RANK = Suspect("rank 1", 1, None, "ValueError: x")
CAUSES: dict[str, causes.Cause] = {
    "CalledOther": causes.CalledOther("ALLREDUCE"),
    "CouldNotStart": causes.CouldNotStart(StartupFault.NAME, "said"),
    "HostFailed": causes.HostFailed("node1"),
    "LeftEarly": causes.LeftEarly(),
    "NamedMissing": causes.NamedMissing(NamedBy.BARRIER),
    "NeverANumber": causes.NeverANumber("loss", "NaN", "loss: nan", 3, earlier=False),
    "NeverJoined": causes.NeverJoined("said"),
    "OtherText": causes.OtherText("stack", "f"),
    "SilentAlone": causes.SilentAlone(),
    "ThreadDied": causes.ThreadDied(),
    "Undecided": causes.Undecided(Doubt.ERRORS),
    "WaitsElsewhere": causes.WaitsElsewhere("barrier"),
}


def named(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_what_texts_name_is_known(row: dict[str, Any]) -> None:
    means = [one for one in TABLE["means"] if one["rule"] == row["id"]] or [{}]
    texts = [row["title"], row["cause"], row["next_steps"], row.get("verdict_at_frame", "")]
    for name in lines_of(row["causes"]):
        blame = Attribution(CAUSES[name], first=(RANK,), candidates=(RANK,))
        for told in means:
            known = _words(row, told, blame).keys() | told.keys()
            for text in (*texts, *map(str, told.values())):
                assert named(text) <= known, (row["id"], told)
            assert len({frozenset(one) - {"confidence"} for one in means}) == 1, (
                "one row lacks a key"
            )


def test_a_case_of_a_row_is_one_of_its_rule() -> None:
    cases = {row["id"]: lines_of(row.get("cases", "")) for row in ROWS}
    for one in TABLE["means"]:
        assert not cases[one["rule"]] or one["case"] in cases[one["rule"]], one


def test_culprits_are_types_of_a_jam() -> None:
    named = {name for row in TABLE["rule"] for name in lines_of(row.get("culprits", ""))}
    assert named
    assert named <= {cls.__name__ for cls in get_args(jam.Cause)}
