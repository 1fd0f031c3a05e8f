"""The line that is told is the user's: not ours, and of a group that of its first exception."""

import io
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.render import terminal

LIBRARY = "/opt/venv/lib/python3.11/site-packages"
LOG = f"""\
Traceback (most recent call last):
  File "/job/train.py", line 31, in <module>
    train(net)
  File "/job/train.py", line 23, in train
    loss = net(x).abs().mean()
  File "{LIBRARY}/torch/nn/modules/module.py", line 1778, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
  File "{LIBRARY}/torch/nn/modules/module.py", line 1843, in inner
    hook_result = hook(self, args, kwargs, result)
  File "{{ours}}/postmortem/monitor/hooks.py", line 66, in __call__
    raise found.with_traceback(None) from None
  File "{{ours}}/postmortem/monitor/verdict.py", line 204, in _raise
    raise NumericsError(self._message(found) + beside, found)
{{name}}: input[0] came into the model (Net) bad from outside: 12 NaN of 12 float32\
 values in batch 3
"""


@pytest.mark.parametrize("ours", [LIBRARY, "/home/me/checkout/src"])
@pytest.mark.parametrize(
    "name", ["postmortem.NumericsError", "postmortem.monitor.errors.NumericsError"]
)
def test_the_line_is_the_users(tmp_path: Path, ours: str, name: str, prose: Prose) -> None:
    path = tmp_path / "out.log"
    path.write_text(LOG.format(ours=ours, name=name))
    report = analyse([str(path)], RankLogOptions())
    [place] = report.highlights.places
    assert (place.file, place.line, place.function) == ("/job/train.py", 23, "train")
    assert "came into the model (Net) bad from outside" in report.verdict
    prose(*(step for step in report.diagnoses[0].next_steps))
    out = io.StringIO()
    terminal.render(report, out, verbose=True)
    assert "/postmortem/" not in out.getvalue()
    assert "… 2 frames in torch" in out.getvalue()


GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/job/train.py", line 11, in <module>
  |     asyncio.run(main())
  |   File "/job/train.py", line 8, in main
  |     async with asyncio.TaskGroup() as group:
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/job/train.py", line 5, in fetch
    |     raise KeyError("shard")
    | KeyError: 'shard'
    +------------------------------------
"""


def test_of_a_group_the_first_exception_is_told_where_it_was_raised(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.write_text(GROUP)
    report = analyse([str(path)], RankLogOptions())
    [place] = report.highlights.places
    assert (place.line, place.function) == (5, "fetch")
    assert place.source == ((5, 'raise KeyError("shard")'),)
    assert report.verdict.startswith("KeyError: 'shard'")


def test_what_cython_includes_is_the_librarys(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.write_text(
        'Traceback (most recent call last):\n  File "/job/train.py", line 7, in split\n'
        '    rows["label"]\n  File "lumen/_libs/table.pxi", line 77, in lumen._libs.Table.get\n'
        "KeyError: 'label'\n"
    )
    [place] = analyse([str(path)], RankLogOptions()).highlights.places
    assert (place.file, place.line) == ("/job/train.py", 7)


def test_what_a_class_generates_is_not_the_users(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    head = "Traceback (most recent call last):\n"
    made = '  File "<string>", line 3, in __init__\nValueError: no shard\n'
    path.write_text(f'{head}  File "/job/train.py", line 7, in <module>\n    Arguments()\n{made}')
    [place] = analyse([str(path)], RankLogOptions()).highlights.places
    assert (place.file, place.line) == ("/job/train.py", 7)
    path.write_text(head + made)
    [place] = analyse([str(path)], RankLogOptions()).highlights.places
    assert (place.file, place.line) == ("<string>", 3)


def test_the_call_in_which_native_code_crashed_is_told(tmp_path: Path, prose: Prose) -> None:
    path = tmp_path / "out.log"
    path.write_text(
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f (most recent call first):\n"
        f'  File "{LIBRARY}/lumen/kernels.py", line 90 in _light\n'
        '  File "/job/train.py", line 23 in train\n'
    )
    report = analyse([str(path)], RankLogOptions())
    [place] = report.highlights.places
    assert (place.file, place.line) == ("/job/train.py", 23)
    prose(report.diagnoses[0].cause)
