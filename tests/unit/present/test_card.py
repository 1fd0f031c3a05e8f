"""From a report to its card: what is said once, filled in, ordered."""

import ast
from dataclasses import replace
from pathlib import Path

import postmortem
from builders.prose import Prose
from builders.reports import WATCHDOG, full_report
from postmortem.diagnose import rule
from postmortem.facts.source import Problem, Source
from postmortem.facts.threads import is_own
from postmortem.knowledge.messages import signatures
from postmortem.present.card import card_of, filled
from postmortem.present.headline.by_cause import MEANINGS, REASONS, not_written
from postmortem.present.headline.grammar import doubt, hedged
from postmortem.present.places import told_values, with_values_in_order
from postmortem.report.card import Highlights, Place
from postmortem.report.model import Confidence, Evidence, Report, Role, Subject

EMPTY = Report("core", (), "nothing is wrong", False, (), (), {})
LIKELY = replace(WATCHDOG, id="a", title="the disk was full", confidence=Confidence.LIKELY)
MAYBE = replace(LIKELY, confidence=Confidence.POSSIBLE)
OTHER = replace(MAYBE, id="b", title="the quota was used up")


def test_at_most_three_steps() -> None:
    many = replace(WATCHDOG, next_steps=("a", "b", "c", "d"))
    assert card_of(replace(EMPTY, diagnoses=(many,))).steps == ("a", "b", "c")


def test_why_does_not_repeat_the_headline() -> None:
    best = replace(LIKELY, cause="The disk was full. A quota has the same effect.")
    report = replace(EMPTY, verdict="SIGBUS: the disk was full", diagnoses=(best,))
    assert card_of(report).why == "A quota has the same effect."


def test_why_is_the_title_where_the_headline_says_something_else() -> None:
    report = replace(EMPTY, verdict="ENOSPC: 1 call", diagnoses=(LIKELY,))
    assert card_of(report).why == "the disk was full"


def test_evidence_stands_in_for_frames() -> None:
    best = replace(LIKELY, evidence=tuple(Evidence(f"a.log:{n}", f"line {n}") for n in range(4)))
    rows = card_of(replace(EMPTY, diagnoses=(best,))).rows
    assert rows == tuple((f"a.log:{n}", f"line {n}") for n in range(3))


def test_evidence_names_source_files_without_their_folders() -> None:
    said = "[enforce fail at /__w/x/gloo/tcp/pair.cc:456] 684 vs 668 in /data/step.pt"
    best = replace(LIKELY, evidence=(Evidence("rank1.log:3", said),))
    rows = card_of(replace(EMPTY, diagnoses=(best,))).rows
    assert rows == (("rank1.log:3", "[enforce fail at pair.cc:456] 684 vs 668 in /data/step.pt"),)


def test_evidence_of_a_call_shows_its_result() -> None:
    data = r"PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\17\0\23\0st"
    said = f'pid 7 write(10, "{data}"..., 1885) = -1 ENOSPC'
    best = replace(LIKELY, evidence=(Evidence("a.strace:3", said),))
    rows = card_of(replace(EMPTY, diagnoses=(best,))).rows
    shown = r'pid 7 write(10, "PK\3\4\0\0\10\10\0\0…", 1885) = -1 ENOSPC'
    assert rows == (("a.strace:3", shown),)


def test_problems_stand_in_where_nothing_was_concluded() -> None:
    report = replace(EMPTY, problems=(Problem("/job/a.pt", "the file is cut"),))
    card = card_of(report)
    assert card.rows == (("a.pt", "the file is cut"),)
    assert "1 problem" in card.footer


def test_problems_of_damaged_evidence_stand_before_mere_context() -> None:
    aside = replace(LIKELY, role=Role.CONTEXT)
    cut = Problem("/job/a.pt", "the file is cut", "copy it again")
    report = replace(EMPTY, failed=True, diagnoses=(aside,), problems=(cut,))
    card = card_of(report)
    assert (card.rows, card.steps) == ((("a.pt", "the file is cut"),), ("copy it again",))
    assert card_of(replace(report, failed=False)).steps == aside.next_steps[:3]


def test_highlights_win() -> None:
    shown = Highlights(rows=(("then", "x"),), headline="rank 2 raised", rest="8 victims")
    card = card_of(replace(full_report(), highlights=shown))
    assert (card.rows, card.headline) == (shown.rows, "rank 2 raised")
    assert card.rest.startswith("8 victims")


def test_what_is_known_is_filled_in() -> None:
    steps = ("gdb -p PID", "postmortem core CORE", "a PIDFILE stays")
    best = replace(WATCHDOG, next_steps=steps)
    report = replace(full_report(), diagnoses=(best,), body={"process": {"pid": 4711}})
    told = filled(report).diagnoses[0].next_steps
    assert told == ("gdb -p 4711", "postmortem core " + report.inputs[0].path, "a PIDFILE stays")


def test_what_a_diagnosis_is_about_is_filled_in_first() -> None:
    best = replace(WATCHDOG, next_steps=("py-spy dump --pid PID",), about=Subject(pid=7))
    report = replace(EMPTY, diagnoses=(best,), body={"process": {"pid": 4711}})
    assert filled(report).diagnoses[0].next_steps == ("py-spy dump --pid 7",)


def test_what_is_not_known_stays() -> None:
    best = replace(WATCHDOG, next_steps=("py-spy dump --pid PID",))
    assert filled(replace(EMPTY, diagnoses=(best,))).diagnoses == (best,)


def test_values_that_say_nothing_are_left_out() -> None:
    values = (("self", "<R>"), ("np", "<module 'numpy'>"), ("i", "3"), ("__x", "1"), ("i", "4"))
    assert told_values(values) == (("i", "3"),)


def test_values_of_the_line_come_first() -> None:
    source = ((1, "aa = 1"), (2, "use(b, a)"), (3, "c = 2"))
    place = Place("f", line=2, values=(("c", "2"), ("a", "0"), ("b", "1")), source=source)
    assert [name for name, _ in with_values_in_order(place).values] == ["b", "a", "c"]


def test_our_hooks_and_libraries_are_not_the_users_own() -> None:
    assert is_own("/job/train.py")
    assert is_own("<stdin>")
    assert not is_own("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py")
    assert not is_own("/opt/x/postmortem/run/hook/sitecustomize.py")
    assert not is_own("C:\\Users\\lum\\conda\\Lib\\multiprocessing\\reduction.py")


def test_doubt_is_said_in_one_way() -> None:
    assert (doubt(LIKELY), doubt(MAYBE)) == ("", "possibly ")
    assert doubt(replace(MAYBE, role=Role.CONTEXT)) == ""
    assert hedged([LIKELY, OTHER], after="!") == "the disk was full!"
    assert hedged([MAYBE]) == "possibly the disk was full"
    both = "undecided between the disk was full; and the quota was used up"
    assert hedged([MAYBE, OTHER]) == both
    assert hedged([MAYBE, replace(OTHER, id="a")]) == "possibly the disk was full"


def test_a_checkpoint_is_named_by_what_became_of_it(prose: Prose) -> None:
    full = replace(LIKELY, id="disk_full", about=Subject(path="/scratch/run1/ckpt.pt"))
    prose(not_written(full))
    assert not_written(replace(full, about=Subject(path="/scratch/run1/job.log"))) is None
    assert not_written(replace(full, about=None)) is None


def test_every_cause_that_has_words_exists() -> None:
    assert set(REASONS) <= {one.id for one in rule.load("strace")}
    assert set(MEANINGS) <= {one.id for one in signatures()}


def test_verdicts_are_made_in_one_folder() -> None:
    """No analysis words a verdict of its own; what this machine lacks is no verdict on a job."""
    folder = Path(postmortem.__file__).parent / "analyses"
    found = {
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and "verdict" in node.name
    }
    assert not found


def _logs(**pids: object) -> Report:
    step = "py-spy dump --native --pid PID  on its host while it hangs"
    best = replace(LIKELY, next_steps=(step,))
    first = {"ranks": [2], "host": None}
    body = {"first_failure": first, "pids": [{"rank": 2, "own": True, "host": "node3", **pids}]}
    return replace(EMPTY, kind="logs", diagnoses=(best,), body=body)


def test_the_pid_and_host_of_the_culprit_are_filled_in() -> None:
    (best,) = filled(_logs(pid=4711)).diagnoses
    assert best.next_steps == ("py-spy dump --native --pid 4711  on node3 while it hangs",)


def test_the_pid_of_a_process_that_has_ended_is_not() -> None:
    report = _logs(pid=4711)
    (best,) = filled(replace(report, body={**report.body, "exits": [{"pid": 4711}]})).diagnoses
    assert "--pid PID" in best.next_steps[0]


def test_a_pid_of_another_rank_or_of_a_worker_is_not() -> None:
    for other in ({"pid": 4711, "rank": 1}, {"pid": 4711, "own": False}):
        (best,) = filled(_logs(**other)).diagnoses
        assert "--pid PID" in best.next_steps[0]


def test_a_step_names_the_log_that_was_read_and_never_writes_over_it() -> None:
    steps = ("strace LOG", "postmortem strace LOG", "strace -f -o LOG CMD")
    report = replace(
        EMPTY,
        kind="strace",
        diagnoses=(replace(LIKELY, next_steps=steps),),
        inputs=(Source("my log.txt", 1),),
    )
    told = filled(report).diagnoses[0].next_steps
    assert ["LOG" in step for step in told] == [True, False, True]
    assert "'my log.txt'" in told[1]
    two = filled(replace(report, inputs=report.inputs * 2)).diagnoses[0].next_steps
    assert all("LOG" in step for step in two)


def test_why_is_of_the_root_that_the_headline_names() -> None:
    first = replace(LIKELY, id="b", title="rank 0 raised KeyError", cause="Another matter.")
    second = replace(LIKELY, title="the disk was full", cause="A quota was used up.")
    report = replace(EMPTY, kind="triage", diagnoses=(first, second))
    card = card_of(replace(report, highlights=Highlights(headline="the disk was full")))
    assert "quota" in card.why
    other = card_of(replace(report, highlights=Highlights(headline="two jobs failed")))
    assert "quota" not in other.why
