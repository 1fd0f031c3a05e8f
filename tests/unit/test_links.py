"""Links between the pages, and from the README to files of this repository, lead somewhere."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\((?P<to>[^)#\s]+)(?:#[^)\s]*)?\)")
_OURS = re.compile(r"https://github\.com/torch-postmortem/postmortem/(?:blob|tree)/main/(?P<to>.+)")
_PAGES = [
    *(_ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(_ROOT / "docs").rglob("*.md"),
]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    dead = []
    for found in _LINK.finditer(text):
        ours = _OURS.fullmatch(found["to"])
        if not ours and "://" in found["to"]:
            continue
        target = _ROOT / ours["to"] if ours else page.parent / found["to"]
        if not target.exists():
            dead.append(found["to"])
    assert dead == []


def test_the_readme_has_no_relative_links() -> None:
    """A page of an index shows it too, where a relative link leads nowhere."""
    links = [found["to"] for found in _LINK.finditer((_ROOT / "README.md").read_text())]
    assert links
    assert [to for to in links if "://" not in to] == []
