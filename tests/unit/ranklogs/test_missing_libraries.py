"""A shared library that the loader does not find: the steps name it, and suit what it is of."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse

_RAISED = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    import m\n{}'
_SAID = "{}: cannot open shared object file: No such file or directory\n"


@pytest.mark.parametrize(
    ("library", "told"),
    [
        ("libsndfile.so.1", "apt-file search libsndfile.so.1"),
        ("libcudart.so.11.0", "libcudart.so.11.0"),
        ("libnvrtc.so.12", "libnvrtc.so.12"),
        ("libcuda.so.1", "nvidia-smi"),
        ("libGL.so.1", "opencv-python-headless"),
    ],
)
@pytest.mark.parametrize(
    "by", ["ImportError", "OSError", "./t: error while loading shared libraries"]
)
def test_steps(library: str, told: str, by: str, tmp_path: Path) -> None:
    said = _SAID.format(f"{by}: {library}")
    log = tmp_path / "job.log"
    log.write_text(said if by.startswith("./") else _RAISED.format(said))
    report = analyse([str(log)], RankLogOptions())
    assert report.failed
    steps = " ".join(report.diagnoses[0].next_steps)
    assert told in steps
    assert "LIBRARY" not in steps.replace("LD_LIBRARY_PATH", "")


def test_a_plugin_that_nccl_does_without_is_no_failure(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(_SAID.format("node1:23:40 [5] NCCL INFO TUNER/Plugin: libnccl-net.so"))
    assert not analyse([str(log)], RankLogOptions()).failed
