"""The lines around the one that a report of logs cites: of the same writer, as they were kept."""

from pathlib import Path
from typing import Any

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.present.card import card_of

_STEPS = [f"[rank{rank}]: step {n} of 40" for n in range(50) for rank in range(3)]


def _excerpt(folder: Path, *lines: str, name: str = "job.log") -> Any:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return analyse([str(folder)], RankLogOptions()).body["excerpt"]


def test_neighbours_are_of_the_same_writer(tmp_path: Path) -> None:
    found = _excerpt(
        tmp_path,
        *_STEPS,
        "[rank1]: reading shard 7",
        "[rank0]: reading shard 8",
        "[rank1]: FATAL: lumen: shard 7 is damaged",
        "[rank2]: reading shard 9",
        "[rank1]: closing the store",
    )
    last = len(_STEPS)
    assert (found["line"], found["file"]) == (last + 3, str(tmp_path / "job.log"))
    numbers = [row["line"] for row in found["lines"]]
    assert numbers[-3:] == [last + 1, last + 3, last + 5]
    assert {(n - 1) % 3 for n in numbers[:-3]} == {1}
    assert found["lines"][-3]["text"] == "reading shard 7"


def test_of_a_launchers_lines_only_the_one_that_is_meant(tmp_path: Path) -> None:
    table = ["Root Cause (first observed failure):", "[0]:", "  rank      : 0 (local_rank: 0)"]
    table += ["  exitcode  : -7 (pid: 4711)", "  error_file: <N/A>"]
    table += ["  traceback : Signal 7 (SIGBUS) received by PID 4711", "=" * 60]
    found = _excerpt(tmp_path, "reading shard 7", *table)
    texts = [row["text"] for row in found["lines"]]
    assert "reading shard 7" in texts
    assert not any(": 0 (local_rank" in text or "error_file" in text for text in texts)


def test_files_of_one_name_are_told_apart_or_left(tmp_path: Path) -> None:
    said = ("reading shard 7", "lumen.cc:3 FATAL: shard 7 is damaged")
    assert _excerpt(tmp_path, *said, name="a/job.log")["line"] == 2
    assert _excerpt(tmp_path, "step 1", name="b/job.log") is None


def test_secrets_in_neighbours_are_masked(tmp_path: Path) -> None:
    secret = "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7"
    (tmp_path / "job.log").write_text(
        f"HF_TOKEN={secret}\nasking\x1b[31m node3 with {secret}\nlumen.cc:3 FATAL: no shard 7\n"
    )
    report = analyse([str(tmp_path / "job.log")], RankLogOptions())
    card = card_of(report)
    assert "asking" in dict(card.rows)["job.log:2"]
    assert secret not in str(report) + str(card)
    assert "\x1b" not in str(card)
