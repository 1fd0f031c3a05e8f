"""Which of several runs failed is told as who started them calls it."""

from pathlib import Path

import pytest

from postmortem.readers.ranklogs.read import read_rank_logs
from postmortem.readers.ranklogs.sources import find_rank_logs

RAISED = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 5, in <module>\n    main()\nKeyError: 7\n'
)
TRIAL = "[W 2026-01-02 03:04:05,678] Trial 1 failed with parameters: {'lr': 3.0} because of it\n"
FINISHED = "[I 2026-01-02 03:05:05,678] Trial 2 finished with value: 0.9 and parameters: {}.\n"


@pytest.mark.parametrize(
    ("text", "run"),
    [
        (
            "[2026-01-02 03:04:05,678][HYDRA] \t#0 : lr=0.1\nepoch 1 loss 2\n"
            f"[2026-01-02 03:04:05,678][HYDRA] \t#1 : lr=1.0\nepoch 1 loss 9\n{RAISED}",
            "job #1 : lr=1.0",
        ),
        (
            "wandb: Agent Starting Run: a1b2c3d4 with config:\nwandb: \tlr: 0.1\nepoch 1\n"
            f"wandb: Agent Starting Run: e5f6a7b8 with config:\nwandb: \tlr: 3\n{RAISED}",
            "run e5f6a7b8",
        ),
        (TRIAL + RAISED, "Trial 1 {'lr': 3.0}"),
        (TRIAL + FINISHED + RAISED, ""),
        (f"epoch 1 loss 2\n{RAISED}", ""),
    ],
)
def test_the_run_that_failed_is_named(tmp_path: Path, text: str, run: str) -> None:
    (tmp_path / "job.log").write_text(text)
    logs = read_rank_logs(find_rank_logs([str(tmp_path / "job.log")])).logs
    assert logs.run == run
