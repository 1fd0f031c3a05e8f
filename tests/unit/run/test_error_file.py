"""What the hook of `run` adds to torchelastic's error file, whose earliest is the root cause."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

HOOK = Path(__file__).parents[3] / "src" / "postmortem" / "run" / "hook" / "_postmortem_hook.py"


def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("hook_under_test", HOOK)
    assert spec is not None
    assert spec.loader is not None
    monkeypatch.syspath_prepend(str(HOOK.parent))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("written", [None, {"py_callstack": "x", "timestamp": "1700000000"}])
def test_who_raised_later_in_one_second_is_later(
    written: dict[str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = hook(monkeypatch)
    monkeypatch.setitem(module._state, "folder", str(tmp_path / "ours"))
    answers = {
        "first": "go\nfirst\nrank 1 failed first on this host",
        "later": "go\nlater\nrank 1 raised ValueError: x 0.30 s ago, and failed first on this host",
    }
    seconds = {}
    for name, answer in answers.items():
        path = tmp_path / name
        if written is not None:
            path.write_text(json.dumps({"message": {"message": "x", "extraInfo": written}}))
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
        module._amend_error_file("ValueError: x", ValueError("x"), None, 1_700_000_000.7, answer)
        extra = json.loads(path.read_text())["message"]["extraInfo"]
        assert "failed first" in extra["py_callstack"]
        seconds[name] = int(extra["timestamp"])
    assert seconds == {"first": 1_700_000_000, "later": 1_700_000_001}
