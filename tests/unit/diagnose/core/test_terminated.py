"""std::terminate() that the program's own code called, while an exception was under way."""

import tomllib

import pytest

from builders.facts import facts_of
from postmortem.diagnose.rule import Confidence, load, run
from postmortem.report.model import Diagnosis

_LIBC, _CXX = "/lib64/libc.so.6", "/lib64/libstdc++.so.6"


def _told(*frames: tuple[str, str], found_by: str = "stack", what: str = "epoch 3") -> Diagnosis:
    first = [("raise", _LIBC), ("abort", _LIBC), ("??", _CXX), ("??", _CXX)]
    rows = [
        f"#{i} 0x7f0000001{i:03x} in {function} () from {module}"
        for i, (function, module) in enumerate([*first, *frames])
    ]
    text = "bt = '''\n" + "\n".join(rows) + "\n'''\n"
    text += '[signal]\nname = "SIGABRT"\ncode = "SI_TKILL"\nsender_pid = 1000\n'
    text += f'[exception]\ntype = "std::runtime_error"\nwhat = "{what}"\nfound_by = "{found_by}"\n'
    outcome = run(load(), facts_of(tomllib.loads(text)))
    assert outcome.problems == ()
    return next(d for d in outcome.diagnoses if d.id == "uncaught_exception")


_TERMINATE = ("std::terminate()", _CXX)
_MAIN = ("main", "/app/trainer")


@pytest.mark.parametrize("function", ["Pool::~Pool()", "??"])
def test_the_programs_own_code_called_it(function: str) -> None:
    own = _told(_TERMINATE, (function, "/app/trainer"), _MAIN)
    thrown = _told(_TERMINATE, ("__cxa_throw", _CXX), (function, "/app/trainer"), _MAIN)
    assert own.confidence is Confidence.LIKELY
    assert own.next_steps != thrown.next_steps
    assert "epoch 3" in own.title


def test_what_has_no_name_in_the_library_itself_is_not_the_programs() -> None:
    inner = _told(_TERMINATE, ("??", _CXX), ("??", "/app/trainer"), _MAIN)
    thrown = _told(_TERMINATE, ("__cxa_throw", _CXX), ("??", "/app/trainer"), _MAIN)
    assert inner.next_steps == thrown.next_steps
