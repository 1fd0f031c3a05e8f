"""The folder of a failed run: nothing secret in its texts, and no link followed."""

import base64
import random
import tarfile
from pathlib import Path

from postmortem.report.redact import Redactor
from postmortem.run.folder import Evidence, pack


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
