"""Cores of other processors and other interpreters, kept slim: reports say what the cases say."""

import json
import lzma
import tomllib
from pathlib import Path
from typing import Any

import pytest

from live.test_corpus_cores import check
from postmortem.cli.main import main

HOSTS = Path(__file__).parents[3] / "corpus" / "hosts"
CASES = sorted(path.parent.name for path in HOSTS.glob("*/case.toml"))


@pytest.mark.parametrize("name", CASES)
def test_core_is_explained(name: str, tmp_path: Path, capsys: Any) -> None:
    case = tomllib.loads((HOSTS / name / "case.toml").read_text())
    if "program" in case:
        place = tmp_path / "usr" / "local" / "bin" / "crash-st"
        place.parent.mkdir(parents=True)
        place.write_bytes(lzma.decompress((HOSTS / case["program"]).read_bytes()))
    (core,) = (HOSTS / name).glob("core.*")
    code = main(["core", str(core), "--json", "--engine", "native", "--sysroot", str(tmp_path)])
    check(case["expect"], json.loads(capsys.readouterr().out), code)
