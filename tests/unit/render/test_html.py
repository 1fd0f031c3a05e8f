"""The HTML page: whole, valid, and without anything that evidence could make it do."""

import base64
import hashlib
import io
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.commands import execute
from builders.reports import full_report
from postmortem.records import replace
from postmortem.render import html
from postmortem.report.blocks import Excerpt, KeyValues, Note, Table
from postmortem.report.card import Card
from postmortem.report.model import Confidence, Diagnosis, Evidence, Report, Role

VOID = {"meta", "br"}
BROWSER = shutil.which("chromium")
EVIL = "<script>document.title='owned'</script><img src=x onerror=alert(1)> \"'&lt; javascript:x"


def page(report: Report) -> str:
    out = io.StringIO()
    html.render(report, out)
    return out.getvalue()


class Reader(HTMLParser):
    """Checks that elements nest, and keeps what could load, run or link."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.scripts = 0
        self.events: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.scripts += tag == "script"
        for name, value in attrs:
            if name == "id":
                assert value not in self.ids
                self.ids.add(value or "")
            elif name == "href":
                self.links.append(value or "")
            elif name in ("src", "srcset", "action", "style"):
                self.loads.append(value or "")
            elif name.startswith("on"):
                self.events.append(name)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    assert reader.scripts == 1
    assert reader.events == []
    assert reader.loads == []
    for link in reader.links:
        assert link.startswith("https://") or link.removeprefix("#") in reader.ids, link
    return reader


def hostile(words: str) -> Report:
    diagnosis = Diagnosis(
        words,
        words,
        Role.ROOT,
        Confidence.CERTAIN,
        words,
        (words,),
        (Evidence(words, words),),
        (words, "https://example.org/a?b=c"),
    )
    blocks = (
        Table((words,), ((words,),), words),
        KeyValues(((words, words),), words),
        Excerpt(words, ((1, words),)),
        Note(words),
    )
    step = {
        **{"id": 0, "type": words, "what": words, "actor": words, "source": words},
        **{"ranks": [0], "explained_by": [], "confidence": words},
        "evidence": [{"where": words, "what": words}],
    }
    body = {"chain": [step], "roots": [{"id": 0}]}
    return Report("triage", (), words, True, (diagnosis,), blocks, body, footer=(words,))


def test_a_full_report_is_one_whole_page() -> None:
    text = page(full_report())
    reader = checked(text)
    assert {"conclusions", "details", "files", "problems", "skipped"} <= reader.ids
    assert full_report().verdict.split(":")[0] in text


def test_only_our_own_style_and_script_may_run() -> None:
    text = page(full_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    for tag in ("style", "script"):
        body = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none';")


@given(st.text(max_size=60) | st.just(EVIL))
def test_no_text_of_the_evidence_is_markup(words: str) -> None:
    checked(page(hostile(words)))


def test_the_same_report_gives_the_same_page() -> None:
    assert page(full_report()) == page(full_report())


def test_the_card_has_its_lines() -> None:
    out = io.StringIO()
    card = Card("it died", True, why="null <pointer>", steps=("look", "then act"))
    html.render(full_report(), out, card=card)
    checked(out.getvalue())
    shown = re.search('<pre class="card">(.*?)</pre>', out.getvalue(), re.DOTALL)
    assert shown is not None
    rows = [row.split() for row in shown[1].split("\n")]
    assert rows == [["why", "null", "&lt;pointer&gt;"], ["next", "1", "look"], ["2", "then", "act"]]


def test_512_ranks_take_less_than_3_mb() -> None:
    steps = [
        {
            **{"id": i, "type": "lost a peer", "what": "x" * 200, "actor": f"rank {i}"},
            **{"source": "logs", "ranks": [i], "explained_by": [0], "confidence": "likely"},
            "evidence": [{"where": f"node{i}.log:{i}", "what": "y" * 200}],
        }
        for i in range(512)
    ]
    body = {"chain": steps, "roots": [{"id": 0}]}
    text = page(replace(full_report(), kind="triage", body=body))
    assert len(text.encode()) < 3 << 20
    checked(text)


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_shows_it_sorts_it_and_runs_nothing_else(tmp_path: Path) -> None:
    rows = (("10",), ("9",), ("200",))
    report = replace(hostile(EVIL), blocks=(Table(("n",), rows),), body={})
    path = tmp_path / "page.html"
    # A click on the head of the table, as a keyboard would do it, by a script of the test alone.
    click = "document.querySelector('section#details th button').click()"
    text = page(report)
    whole = text.replace("</script>", f";{click}</script>", 1)
    body = re.search("<script>(.*?)</script>", whole, re.DOTALL)
    assert body is not None
    old = re.search(r"script-src 'sha256-[^']*'", whole)
    assert old is not None
    digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
    path.write_text(whole.replace(old[0], f"script-src 'sha256-{digest}'"), encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    done = execute(
        [
            *(str(BROWSER), *flags.split(), f"--user-data-dir={tmp_path / 'profile'}"),
            *("--dump-dom", path.as_uri()),
        ],
        env={**os.environ, "HOME": str(tmp_path)},
    )
    shown = done.stdout
    assert "owned" not in re.search("<title>(.*?)</title>", shown, re.DOTALL)[1].split("'")[0]  # type: ignore[index]
    details = shown[shown.index('id="details"') :]
    cells = re.findall(r"<td>(\d+)</td>", details)[:3]
    assert cells == ["9", "10", "200"]
    assert 'aria-sort="ascending"' in details
