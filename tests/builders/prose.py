"""What our sentences say in full, held by golden files: tests name ids and values alone."""

import difflib
import fcntl
from collections.abc import Sequence
from pathlib import Path

import pytest

_TEST, _TEXT, _MORE = "== ", "- ", "| "


class Prose:
    """The sentences of one test, compared with its part of `golden/MODULE.txt` when it ends."""

    def __init__(self, path: Path, test: str, rooms: Sequence[Path]) -> None:
        self.path, self.test, self.rooms = path, test, rooms
        self.texts: list[str] = []

    def __call__(self, *texts: object) -> None:
        """Take texts, one that is repeated once; the folder of the test is told as TMP in them."""
        for text in map(str, texts):
            for room in self.rooms:
                text = text.replace(str(room), "TMP")
            text = "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
            if self.texts[-1:] != [text]:
                self.texts.append(text)

    def check(self, update: bool) -> None:
        """Fail where the golden file has other texts for this test; or write these there."""
        expected = read_prose(self.path).get(self.test, [])
        if self.texts == expected:
            return
        told = "\n".join(
            difflib.unified_diff(
                "\n".join(expected).split("\n"),
                "\n".join(self.texts).split("\n"),
                f"golden/{self.path.name}: {self.test}",
                "said",
                lineterm="",
            )
        )
        if not update:
            pytest.fail(f"{told}\n\nif this is right: pytest --update-golden", pytrace=False)
        _write(self.path, self.test, self.texts)
        print(told)  # noqa: T201  pytest -rP shows it


def read_prose(path: Path) -> dict[str, list[str]]:
    """Return the texts of each test in a golden file."""
    return _read(path.read_text(encoding="utf-8")) if path.exists() else {}


def _read(whole: str) -> dict[str, list[str]]:
    tests: dict[str, list[str]] = {}
    texts: list[str] = []
    for line in whole.split("\n"):
        if line.startswith(_TEST):
            texts = tests[line.removeprefix(_TEST)] = []
        elif line.startswith(_TEXT.rstrip()):
            texts.append(line[len(_TEXT) :])
        elif line.startswith(_MORE.rstrip()):
            texts[-1] += "\n" + line[len(_MORE) :]
    return tests


def _write(path: Path, test: str, texts: Sequence[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several workers may write at once
        file.seek(0)
        tests = _read(file.read()) | {test: texts}
        file.truncate(0)
        for name, told in sorted(tests.items()):
            if told:
                lines = [_TEXT + text.replace("\n", "\n" + _MORE) for text in told]
                shown = "\n".join(line.rstrip() for line in "\n".join(lines).split("\n"))
                file.write(f"{_TEST}{name}\n{shown}\n")
