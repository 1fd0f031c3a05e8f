"""The folder of a failed run: nothing secret in its texts, and no link followed."""

import base64
import json
import random
import tarfile
from pathlib import Path

import pytest

from postmortem.report.redact import Redactor
from postmortem.run.explain import explain
from postmortem.run.facts import facts_of
from postmortem.run.family import Member
from postmortem.run.folder import Evidence, collect, pack
from postmortem.run.outcome import Event, Outcome


def test_a_private_key_over_many_lines_is_masked(tmp_path: Path) -> None:
    body = base64.b64encode(random.Random(7).randbytes(900)).decode()
    rows = [body[at : at + 64] for at in range(0, len(body), 64)]
    words = ["-----BEGIN RSA PRIVATE", "KEY-----"], ["-----END RSA PRIVATE", "KEY-----"]
    text = "\n".join(["loads a key", " ".join(words[0]), *rows, " ".join(words[1]), "has it", ""])
    evidence = Evidence(tmp_path, Redactor())
    evidence.text("output/out.txt", text)
    written = (tmp_path / "output" / "out.txt").read_text()
    assert not [row for row in rows if row in written]
    assert written.startswith("loads a key\n")
    assert written.endswith("has it\n")
    Evidence(tmp_path, None).text("plain.txt", text)
    assert (tmp_path / "plain.txt").read_text() == text


def test_the_archive_is_for_its_owner_and_follows_no_link(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "cores").mkdir(parents=True)
    (folder / "cores" / "core.7").write_bytes(b"memory")
    (folder / "report.txt").write_text("verdict")
    (tmp_path / "other").write_text("mine")
    (tmp_path / "run.tar.gz").symlink_to(tmp_path / "other")
    packed = pack(folder)
    assert (tmp_path / "other").read_text() == "mine"
    assert not packed.is_symlink()
    assert packed.stat().st_mode & 0o777 == 0o600
    with tarfile.open(packed) as archive:
        assert sorted(archive.getnames()) == ["run", "run/report.txt"]


def test_what_a_child_raised_is_told_before_what_talks_to_it_raised(tmp_path: Path) -> None:
    frames = {
        7: ("/lib/python3.11/multiprocessing/connection.py", "FileNotFoundError", "main", 1.0),
        8: ("/job/play.py", "ValueError", "process", 1.2),
    }
    (tmp_path / "raises").mkdir()
    members = []
    for pid, (file, kind, where, time) in frames.items():
        frame = {"file": file, "line": 5, "function": "f", "library": pid == 7}
        row = {"pid": pid, "time": time, "type": kind, "message": "m", "where": where}
        text = json.dumps({**row, "traceback": kind, "frames": [frame]})
        (tmp_path / "raises" / f"{pid}-1.json").write_text(text)
        members.append(Member(pid, 1 if pid == 7 else 7))
        members[-1].status = 1 << 8
    outcome = Outcome(7, 1, None, 0.0, 2.0, tuple(members), (), (), timed_out=False)
    facts = facts_of(outcome, tmp_path)
    collect(Evidence(tmp_path / "out", None), tmp_path, facts, [])
    assert [*facts.log_times] == ["pid-8.log"]


@pytest.mark.parametrize(
    ("own", "told"), [("KeyError: 'b'", "KeyError"), ("", "ConnectionClosedError")]
)
def test_what_the_output_says_of_who_a_raise_tells_of(tmp_path: Path, own: str, told: str) -> None:
    said = "websockets.exceptions.ConnectionClosedError: received 1011 (internal error)"
    head = 'Traceback (most recent call last):\n  File "play.py", line 9, in '
    client = f"{head}<module>\n    reply()\n{said}\n"
    frame = {"file": "/lib/websockets/asyncio/connection.py", "line": 324, "function": "recv"}
    kind, _, message = said.partition(": ")
    row = {"pid": 7, "time": 1.0, "type": kind, "message": message, "where": "main"}
    (tmp_path / "raises").mkdir()
    document = {**row, "traceback": client, "frames": [{**frame, "library": True}]}
    (tmp_path / "raises" / "7-1.json").write_text(json.dumps(document))
    output = tmp_path / "stderr.log"
    output.write_text((f"{head}answer\n    rows[q]\n{own}\n" if own else "") + client)
    one = Member(7, 1)
    one.status, one.raised = 1 << 8, True
    events = (Event(1.0, "raised", 7, said),)
    facts = facts_of(Outcome(7, 1, None, 0.0, 2.0, (one,), events, (), timed_out=False), tmp_path)
    evidence = Evidence(tmp_path / "out", None)
    collect(evidence, tmp_path, facts, [output])
    best = explain(tmp_path / "out", facts, {})[0]
    assert told in best.verdict
