"""What a tracker's own log of a run tells of the program that it ran in."""

from pathlib import Path

import pytest

from builders.ranklogs import report_of

LINE = "2026-01-02 03:04:05,678 {:<7} MainThread:4711 [wandb_run.py:{}():{}] {}\n"
CODE = LINE.format("INFO", "_atexit_cleanup", 2400, "got exitcode: {}")
FAILED = (
    LINE.format("ERROR", "_atexit_cleanup", 2420, "Problem finishing run")
    + "Traceback (most recent call last):\n"
    '  File "/opt/wandb/sdk/wandb_run.py", line 2411, in {}\n    self._on_finish()\n'
    '  File "/opt/wandb/sdk/mailbox.py", line 76, in require_response\n    raise Gone()\n'
    "wandb.sdk.mailbox.Gone\n"
)


@pytest.mark.parametrize("below", ["", LINE.format("INFO", "_restore", 2405, "restore done")])
@pytest.mark.parametrize(("code", "rules"), [(0, []), (1, ["process_ended"])])
def test_wandb_notes_how_its_program_ended(
    tmp_path: Path, code: int, rules: list[str], below: str
) -> None:
    report = report_of(tmp_path, CODE.format(code) + below)
    assert [one.id for one in report.diagnoses] == rules


INTERNAL = "2026-01-02 03:04:05,678 INFO    {}:4720 [{}:414] {}\n"


@pytest.mark.parametrize(
    ("said", "failed"),
    [
        (("SenderThread", "sender.py:send_exit()", "handling exit code: 1"), True),
        (("SenderThread", "sender.py:send_exit()", "handling exit code: 0"), False),
        (("StreamThr ", "internal.py:is_dead()", "parent pid 4711 disappeared"), True),
    ],
)
def test_wandbs_own_process_notes_how_the_program_ended(
    tmp_path: Path, said: tuple[str, str, str], failed: bool
) -> None:
    thread, place, words = said
    words = f"Internal process exiting, {words}" if "parent" in words else words
    ends = INTERNAL.format("WriterThread", "datastore.py:close()", "close: /job/wandb/run-1.wandb")
    report = report_of(tmp_path, INTERNAL.format(thread, place, words) + ends)
    assert report.failed is failed


RETRIED = (
    'Traceback (most recent call last):\n  File "/opt/wandb/sdk/lib/retry.py", line 131, in call\n'
    '    send()\n  File "/opt/wandb/sdk/internal/api.py", line 27, in send\n    raise Gone()\n'
    "wandb.sdk.lib.retry.TransientError: Gone\n"
)


def _watched(names: str) -> str:
    """Return lines of files that were seen to change, each under a name of its own."""
    lines = (f"file {name * 3} changed" for name in names)
    return "".join(INTERNAL.format("HandlerThread", "handler.py:handle()", one) for one in lines)


@pytest.mark.parametrize(
    ("announced", "rule"),
    [("Retry attempt failed:", "process_ended"), ("the last upload begins", "rank_raised")],
)
def test_what_wandbs_own_process_tried_again_did_not_end_the_program(
    tmp_path: Path, announced: str, rule: str
) -> None:
    above = INTERNAL.format("wandb-upload_0", "retry.py:__call__()", announced) + RETRIED
    ends = INTERNAL.format("SenderThread", "sender.py:send_exit()", "handling exit code: 255")
    report = report_of(tmp_path, _watched("abc") + above + _watched("defghijklmnopqrs") + ends)
    assert report.diagnoses[0].id == rule


@pytest.mark.parametrize(("code", "rule"), [(0, "last_words"), (1, "process_ended")])
def test_what_is_raised_once_a_program_is_over_did_not_end_it(
    tmp_path: Path, code: int, rule: str
) -> None:
    report = report_of(tmp_path, CODE.format(code) + FAILED.format("_atexit_cleanup"))
    assert [one.id for one in report.diagnoses] == [rule]


def test_what_another_function_raises_may_have(tmp_path: Path) -> None:
    report = report_of(tmp_path, CODE.format(0) + FAILED.format("_on_start"))
    assert [one.id for one in report.diagnoses] == ["rank_raised"]


def test_a_program_that_fails_to_register_for_its_end_fails(tmp_path: Path) -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    on_exit()\n'
        '  File "a.py", line 2, in set_atexit\n    atexit.register(none)\nNameError: none\n'
    )
    assert [one.id for one in report_of(tmp_path, text).diagnoses] == ["rank_raised"]
