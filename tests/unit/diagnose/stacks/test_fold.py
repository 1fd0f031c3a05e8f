"""How many cores become few crashes, and in what order they are told."""

from typing import Any

from builders.prose import Prose
from postmortem.diagnose.stacks.fold import FoldedCore, first_of, folds, rest_of, same_crash
from postmortem.facts.source import Source
from postmortem.present.core.fold_blocks import fold_blocks, fold_body
from postmortem.present.headline.cores import headline as fold_verdict
from postmortem.records import replace
from postmortem.report.blocks import KeyValues, Table
from postmortem.report.model import Confidence, Diagnosis, Role


def diagnosis(role: Role, confidence: Confidence = Confidence.CERTAIN) -> Diagnosis:
    return Diagnosis("a_rule", "a title", role, confidence, "because", (), ())


def core(
    number: int, sign: str | None = "a", size: int = 0, *, truncated: bool = False, **fields: Any
) -> FoldedCore:
    source = Source(f"core.{number}", size, truncated=truncated)
    return replace(
        FoldedCore(source, float(number), f"verdict {number}", True),
        **{"hash": sign, "summary": f"SIGSEGV in {sign}", "pid": number, "rank": number, **fields},
    )


def test_causes_come_before_what_they_brought_about_and_then_the_many() -> None:
    cascade = [core(n, "cascade", diagnosis=diagnosis(Role.CASCADE)) for n in range(500)]
    root = core(501, "root", diagnosis=diagnosis(Role.ROOT))
    twice = [core(n, "twice", diagnosis=diagnosis(Role.ROOT)) for n in (600, 601)]
    nothing = core(700, None)
    found = folds([*cascade, root, nothing, *twice])
    assert [fold.hash for fold in found] == ["twice", "root", "cascade", None]
    assert fold_verdict(found) == (
        "504 cores, 4 different crashes: 2 x SIGSEGV in twice; 1 x SIGSEGV in root; "
        "500 x SIGSEGV in cascade; 1 more"
    )
    assert first_of(found).path == "core.0"
    body: Any = fold_body(found, 3)
    assert (body["cores_read"], body["cores_unread"], body["first"]) == (504, 3, "core.0")


def test_the_example_is_the_newest_whole_core(prose: Prose) -> None:
    (fold,) = folds([core(3, truncated=True), core(1), core(2)])
    assert (fold.first.path, fold.newest.path, fold.example.path) == ("core.1", "core.3", "core.2")
    prose(fold_verdict([fold]))


def test_copies_of_a_core_are_one() -> None:
    at = ("0x1", "0x2")
    whole, slim = core(1, size=9, stood_at=at), core(2, pid=1, stood_at=at, slim=True)
    same_pid = core(3, pid=1, stood_at=("0x1", "0x3"))
    unknown = [core(n, pid=1) for n in (4, 5)]
    kept, copies = same_crash([slim, whole, same_pid, *unknown])
    assert {found.path for found in kept} == {"core.1", "core.3", "core.4", "core.5"}
    assert copies == {"core.2": "core.1"}


def test_a_cut_core_is_only_said_to_fit_where_one_crash_does() -> None:
    calls = ("native lib f", "python train.step")
    whole = core(1, "a", calls=calls)
    cut = core(2, "b", calls=calls[:1], truncated=True)
    other = core(3, "c", calls=(calls[0], "python train.evaluate"))
    empty = core(4, None, truncated=True)

    def fits(*cores: FoldedCore) -> list[str | None]:
        found = folds(cores)
        rests = (rest_of(fold, found) for fold in found)
        return [None if rest is None else rest.hash for rest in rests]

    assert fits(whole, cut) == [None, "a"]
    assert fits(whole, cut, other) == [None] * 3
    assert fits(whole, empty) == [None] * 2


def test_the_report_has_a_row_for_each_crash_and_bounds_its_length() -> None:
    found = folds([core(n, f"sign {n}", hostname=f"node{n % 3}") for n in range(30)])
    table, *details = fold_blocks(found, verbose=False)
    assert isinstance(table, Table)
    assert len(table.rows) == sum(isinstance(block, KeyValues) for block in details) == 12
    everything, *_ = fold_blocks(found, verbose=True)
    assert isinstance(everything, Table)
    assert len(everything.rows) == 30
