"""What numbers of hardware mean, alone, beside an earlier snapshot, and for triage."""

import json
from pathlib import Path

import pytest

from builders.commands import run_here as run
from builders.hosts import GPU, tree
from builders.incident import judge
from builders.prose import Prose
from builders.schema import validate
from postmortem.analyses.health import report_on
from postmortem.diagnose.incident.events import Event, EventType
from postmortem.diagnose.incident.explains import TABLE
from postmortem.diagnose.incident.graph import solve
from postmortem.diagnose.machine.health import changes, health_checks, meanings
from postmortem.facts.health import Health, Reading
from postmortem.readers.health import read_health
from postmortem.readers.signatures import Signatures
from postmortem.records import replace
from postmortem.report.model import Report

GOOD = Health("node1", "boot-1", 1_000.0, (Reading("mc0", "memory_uncorrected", 0, "cat"),))

ENDED = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/user/train.py", line 12, in <module>
[rank3]:     loss.backward()
[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_02:00:00
  host      : {host}
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 4711)
  error_file: <N/A>
============================================================
"""


def health(
    name: str, value: int, subject: str = "GPU 0000:3b:00.0", boot: str = "boot-1"
) -> Health:
    return Health("node1", boot, 2_000.0, (Reading(subject, name, value, "a command"),))


def document(report: Report) -> dict[str, object]:
    """A report as `triage` gets it."""
    common = {"kind": report.kind, "inputs": [], "diagnoses": [], "verdict": report.verdict}
    found: dict[str, object] = json.loads(json.dumps({**common, **report.body}))
    return found


def test_all_that_is_read_has_a_meaning(tmp_path: Path) -> None:
    found = read_health(host=True, gpu=True, root=tree(tmp_path))
    assert {row.name for row in found.readings} <= meanings().keys()
    assert {check.status for check in health_checks(found, ())} == {"ok"}
    report = report_on(found)
    assert not report.failed
    assert len(found.readings) == 19


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("memory_uncorrected", 1, "failed"),
        ("memory_corrected", 900, "ok"),
        ("remap_pending", 1, "warning"),
        ("remap_failed", 1, "failed"),
        ("log_gpu_program", 5, "ok"),
        ("log_gpu_hardware", 1, "failed"),
        ("clock_offset", 100_000, "ok"),
        ("clock_offset", 100_001, "warning"),
        ("nvlink_inactive", 1, "ok"),
    ],
)
def test_how_bad_a_number_is_alone(name: str, value: int, status: str) -> None:
    (check,) = health_checks(health(name, value), ())
    assert (check.status, check.command, bool(check.fix)) == (status, "a command", status != "ok")


@pytest.mark.parametrize(
    ("name", "before", "after", "boot", "state"),
    [
        ("ecc_uncorrected_ever", 3, 3, "boot-1", None),
        ("ecc_uncorrected_ever", 3, 4, "boot-1", "failed"),
        ("ecc_uncorrected_ever", 3, 3, "boot-2", None),
        ("ecc_uncorrected", 3, 2, "boot-1", None),
        ("ecc_uncorrected", 3, 2, "boot-2", "failed"),
        ("nvlink_inactive", 1, 1, "boot-1", None),
        ("nvlink_inactive", 0, 1, "boot-1", "failed"),
        ("clock_offset", 10, 90_000, "boot-1", None),
    ],
)
def test_what_grew(name: str, before: int, after: int, boot: str, state: str | None) -> None:
    grown = changes(health(name, before), health(name, after, boot=boot))
    assert [change.state for change in grown] == ([state] if state else [])


def test_what_was_not_looked_at_before_did_not_grow() -> None:
    assert changes(GOOD, health("ecc_uncorrected", 7)) == ()


def test_a_line_of_the_log_is_new_where_the_log_was_read_before() -> None:
    logged = Reading("kernel log", "log_gpu", 0, "dmesg")
    after = health("log_gpu_hardware", 1)
    assert changes(GOOD, after) == ()
    (change,) = changes(replace(GOOD, readings=(logged,)), after)
    assert (change.before, change.after, change.breaks) == (0, 1, "gpu")


def test_a_gpu_that_is_no_longer_listed() -> None:
    two = replace(GOOD, readings=tuple(Reading(f"GPU {n}", "gpu_missing", 0, "x") for n in "ab"))
    one = replace(two, readings=two.readings[:1])
    assert [change.subject for change in changes(two, one)] == ["GPU b"]
    assert changes(two, replace(two, readings=())) == ()  # nvidia-smi itself was not there


def ended(what: str, host: str | None = "node1", signal: str | None = None) -> Event:
    event = Event(EventType.RAISED, what, "logs", ranks=(3,), host=host, signal=signal)
    (found,) = Signatures.load("process text").matches([what])
    return replace(event, belongs=True, matches=found)


@pytest.mark.parametrize(
    ("name", "effect", "explained"),
    [
        ("ecc_uncorrected", ended("CUDA error: uncorrectable ECC error encountered"), True),
        ("ecc_uncorrected", ended("CUDA error: an illegal memory access"), False),
        ("ecc_uncorrected", ended("ValueError: bad label"), False),
        ("ecc_uncorrected", ended("uncorrectable ECC error encountered", host="node2"), False),
        ("ecc_uncorrected", ended("uncorrectable ECC error encountered", host=None), False),
        ("memory_uncorrected", ended("killed", signal="SIGBUS"), True),
        ("memory_uncorrected", ended("killed", signal="SIGSEGV"), False),
        ("fabric_link_downed", ended("NET/IB : Got completion with error 12"), True),
        ("gpu_slowed_heat", ended("CUDA error: unknown error"), False),
    ],
)
def test_growth_explains_only_ends_that_look_like_it(
    name: str, effect: Event, explained: bool
) -> None:
    report = report_on(health(name, 2), health(name, 0))
    (event, *_) = judge([document(report)]).incident.events or (None,)
    events = [effect] if event is None else [effect, event]
    links = solve(events, TABLE).links
    assert [(link.cause, link.effect) for link in links] == ([(1, 0)] if explained else [])


def test_old_trouble_explains_nothing() -> None:
    assert judge([document(report_on(health("ecc_uncorrected", 5)))]).incident.events == ()


def test_two_snapshots_of_this_machine_and_triage(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    command = ["doctor", "--host", "--gpu", "--json", "-o"]
    assert run(*command, before).returncode in (0, 1)
    assert run(*command, after, "--since", before).returncode in (0, 1)
    found = json.loads(after.read_text())
    validate(found)
    assert found["since"] == json.loads(before.read_text())["snapshot"]["taken"]

    # The same machine, of which a GPU's memory was wrong meanwhile, and a rank's end on it.
    row = {"subject": f"GPU {GPU}", "name": "ecc_uncorrected", "command": "nvidia-smi -q"}
    change = {**row, "words": "uncorrected errors: 0 before, 2 now", "before": 0, "after": 2}
    found["changes"] = [{**change, "state": "failed", "breaks": "gpu"}]
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "doctor.json").write_text(json.dumps(found))
    (tmp_path / "job" / "train.log").write_text(ENDED.format(host=found["snapshot"]["host"]))
    judged = json.loads(run("triage", tmp_path / "job", "--json").stdout)
    (root,) = judged["roots"]
    assert (root["type"], root["ranks"]) == ("hardware got worse", [3])
    assert GPU in judged["verdict"]


@pytest.mark.parametrize("text", ["{}", "rubbish", None])
def test_a_snapshot_that_is_none(tmp_path: Path, text: str | None, prose: Prose) -> None:
    file = tmp_path / "before.json"
    if text is not None:
        file.write_text(text)
    done = run("doctor", "--host", "--since", file)
    assert done.returncode == 3
    prose(done.stderr)


def test_a_snapshot_of_another_host_or_of_none(tmp_path: Path, prose: Prose) -> None:
    file = tmp_path / "before.json"
    run("doctor", "--gpu", "--json", "-o", file)
    file.write_text(file.read_text().replace('"host": "', '"host": "not-'))
    done = run("doctor", "--gpu", "--since", file)
    assert done.returncode == 3
    assert " not-" in done.stderr
    run("doctor", "--json", "-o", file)
    done = run("doctor", "--gpu", "--since", file)
    assert done.returncode == 3
    prose(done.stderr)
    assert run("doctor", "--since", file).returncode == 2
