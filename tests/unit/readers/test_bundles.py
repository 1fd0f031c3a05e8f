"""What in a folder of `postmortem run` says only what other files there say."""

import json
from pathlib import Path

import pytest

from postmortem.readers.bundles import SCHEMA, repeats

ALWAYS = ("manifest.json", "report.txt", "rerun.sh", "raises/7-1.json")
OF_ONE = ("endings.txt", "output/stderr.log")
NEVER = ("logs/pid-7.log", "flight/dump_0", "other/report.txt")


def process(
    rank: int | None, signal: str | None = None, *, raised: bool = True
) -> dict[str, object]:
    return {
        "rank": rank,
        "raised": raised,
        "exit": {"code": None if signal else 1, "signal": signal},
    }


@pytest.mark.parametrize(
    ("processes", "repeated"),
    [
        ([process(None)], (*ALWAYS, *OF_ONE)),
        ([process(None), {**process(None, raised=False), "exit": None}], (*ALWAYS, *OF_ONE)),
        ([process(None, raised=False)], ALWAYS),
        ([process(None), process(None, "SIGKILL")], ALWAYS),
        ([process(0), process(1)], ALWAYS),
    ],
)
def test_files_that_repeat_others(
    processes: list[object], repeated: tuple[str, ...], tmp_path: Path
) -> None:
    said = {"schema": SCHEMA, "processes": processes}
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    found = [name for name in (*ALWAYS, *OF_ONE, *NEVER) if repeats(str(tmp_path / name))]
    assert found == list(repeated)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": "web-app/1", "processes": []}'])
def test_other_programs_files_of_these_names(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    assert not any(repeats(str(tmp_path / name)) for name in (*ALWAYS, *OF_ONE))


def test_without_a_manifest_nothing_is_repeated(tmp_path: Path) -> None:
    assert not any(repeats(str(tmp_path / name)) for name in (*ALWAYS, *OF_ONE))
