"""Logs of containers, whose lines are JSON objects that hold what was written."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse, analyse_and_split
from postmortem.readers.ranklogs.collected import entries_of
from postmortem.readers.ranklogs.wrapped import layers, unwrapped

WROTE = [
    "step 1 loss 2.0",
    "step 2 loss 1.9",
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 31, in step',
    "    raise Gone(shard)",
    "lumen.Gone: shard 3",
]


def docker(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-01-02T03:04:05.1Z"})


def cloud(line: str) -> str:
    return json.dumps({"textPayload": line, "severity": "INFO", "timestamp": "2026-01-02T03:04Z"})


def loki(line: str) -> str:
    labels = {"pod": "trainer-0", "stream": "stderr"}
    return json.dumps({"labels": labels, "line": line, "timestamp": "2026-01-02T03:04:05Z"})


def journal(line: str) -> str:
    return json.dumps({"_PID": "7", "__REALTIME_TIMESTAMP": "1795866003178456", "MESSAGE": line})


_OF_PODS = [
    {"kubernetes": {"pod_name": "train-2"}, "log": "KEPT", "time": "2026-01-02T03:04:05Z"},
    {"resource": {"labels": {"pod_name": "train-2"}}, "textPayload": "KEPT", "timestamp": "1"},
    {"labels": {"pod": "train-2"}, "line": "KEPT", "timestamp": "2026-01-02T03:04:05Z"},
    {"kubernetes": {"pod": {"name": "train-2"}}, "message": "KEPT", "@timestamp": "1"},
]


@pytest.mark.parametrize("form", _OF_PODS, ids=lambda form: next(iter(form)))
@pytest.mark.parametrize("listed", [False, True])
def test_who_ships_a_log_says_which_pod_a_line_is_of(
    tmp_path: Path, form: dict[str, Any], listed: bool
) -> None:
    text = json.dumps(form)
    other = text.replace("train-2", "train-1")
    lines = [text.replace('"KEPT"', json.dumps(line)) for line in WROTE]
    lines[:0] = [other.replace("KEPT", f"step {n} loss 2.0") for n in range(6)]
    whole = f"[{', '.join(lines)}]" if listed else "\n".join(lines)
    (tmp_path / "shipped.json").write_text(whole)
    body: Any = analyse([str(tmp_path)], RankLogOptions()).body
    assert body["first_failure"]["what"] == "lumen.Gone: shard 3"
    assert body["first_failure"]["label"] == "train-2"


@pytest.mark.parametrize("form", [docker, cloud, loki, journal])
@pytest.mark.parametrize("packed", [False, True])
def test_what_was_written_is_read(tmp_path: Path, form: Any, packed: bool) -> None:
    data = "".join(f"{form(line)}\n" for line in WROTE).encode()
    path = tmp_path / ("c-json.log.gz" if packed else "c-json.log")
    path.write_bytes(gzip.compress(data) if packed else data)
    body: Any = analyse([str(path)], RankLogOptions()).body
    assert body["first_failure"]["what"] == "lumen.Gone: shard 3"
    assert body["first_failure"]["line"] == 6


def test_ranks_are_split_as_they_wrote(tmp_path: Path) -> None:
    lines = [f"[rank{n % 2}]: step {n} loss 2.0" for n in range(40)]
    path = tmp_path / "c-json.log"
    path.write_text("".join(f"{docker(line)}\n" for line in lines))
    analyse_and_split([str(path)], str(tmp_path / "split"), RankLogOptions())
    told = [one.read_text() for one in sorted((tmp_path / "split").iterdir())]
    assert [text.count("\n") for text in told if text.startswith("step ")] == [20, 20]


def record(line: str, level: str = "info", **more: Any) -> str:
    return json.dumps({"ts": "2026-01-02T03:04:05Z", "level": level, "message": line, **more})


@pytest.mark.parametrize(
    "form",
    [
        record,
        "> {}".format,
        "@400000006b0ac4e5185b34e4 {}".format,
        "    {}".format,
        "\t{}".format,
        "trainer-1  | {}".format,
        "lumen trainer {}".format,
        lambda line: '"' + line.replace('"', '""') + '"',
        lambda line: line.replace('"', "&quot;").replace("<", "&lt;"),
    ],
)
def test_what_was_handed_on_is_read(tmp_path: Path, form: Any) -> None:
    path = tmp_path / "paste.txt"
    path.write_text("".join(f"{form(line)}\n" for line in WROTE))
    body: Any = analyse([str(path)], RankLogOptions()).body
    assert body["first_failure"]["what"] == "lumen.Gone: shard 3"
    assert body["first_failure"]["line"] == 6


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "paste.txt"
    path.write_bytes(mark + b"*** SIGSEGV (@0x8), see lumen.run/1 received by PID 7 (TID 8) ***\n")
    assert analyse([str(path)], RankLogOptions()).failed


def test_lines_with_numbers_and_reports_around_a_log_are_read(tmp_path: Path) -> None:
    numbered = [f"{n + 41:>4}  {line}" for n, line in enumerate(WROTE)]
    report = ["It stops with this:", "", "```bash", *WROTE, "```", "", "Any ideas?"]
    for lines in (numbered, report):
        path = tmp_path / "paste.txt"
        path.write_text("\n".join(lines) + "\n")
        body: Any = analyse([str(path)], RankLogOptions()).body
        assert body["first_failure"]["what"] == "lumen.Gone: shard 3"


def test_an_error_glued_to_a_bar_is_read(tmp_path: Path) -> None:
    bar = "  7%|▋         | 35/500 [00:31<06:53,  1.1it/s, loss=2.37]"
    path = tmp_path / "bar.txt"
    path.write_text(f"{bar}\r{bar}" + "\n".join(WROTE[2:]) + "\n")
    body: Any = analyse([str(path)], RankLogOptions()).body
    assert body["first_failure"]["what"] == "lumen.Gone: shard 3"


def test_levels_of_a_logger_stay() -> None:
    lines = [
        record("step 1"),
        record("no shard 3", "warning"),
        record("lost", rank=3, exc_info="A\nB"),
    ]
    data = "".join(f"{line}\n" for line in lines).encode()
    told = b"".join(unwrapped([data], layers(data))).decode()
    assert (
        told == "INFO: step 1\nWARNING: no shard 3\n[rank3]: INFO: lost\n[rank3]: A\n[rank3]: B\n"
    )


def test_the_reason_beside_a_message_is_read() -> None:
    lines = [
        record("Reconciler error", "error", controller="job", error="no quota"),
        record("no quota", "error", err="no quota"),
        record("lost", "error", error=""),
    ]
    data = "".join(f"{line}\n" for line in lines).encode()
    told = b"".join(unwrapped([data], layers(data))).decode()
    assert told == "ERROR: Reconciler error: no quota\nERROR: no quota\nERROR: lost\n"


@pytest.mark.parametrize(("level", "told"), [("error", True), ("warning", False)])
def test_a_traceback_in_parts_is_read(tmp_path: Path, level: str, told: bool) -> None:
    frames = [{"filename": "/job/train.py", "lineno": 31, "name": "step"}]
    parts = [{"exc_type": "Gone", "exc_value": "shard 3", "frames": frames, "is_cause": False}]
    path = tmp_path / "structlog.log"
    path.write_text(record("a") + "\n" + record("lost", level, error_detail=parts) + "\n")
    body: Any = analyse([str(path)], RankLogOptions()).body
    failure = body["first_failure"]
    assert (failure and failure["what"]) == ("Gone: shard 3" if told else None)


@pytest.mark.parametrize(
    ("field", "below"), [("Traceback (most recent call last):\n  x", True), ("a note", False)]
)
def test_a_stack_is_known_by_how_it_begins(field: str, below: bool) -> None:
    line = f"{record('lost', exc=field)}\n".encode()
    told = b"".join(unwrapped([line], layers(line))).decode()
    assert told.rstrip("\n").split("\n")[1:] == (field.split("\n") if below else [])


@pytest.mark.parametrize(
    "lines",
    [
        WROTE,
        ['{"role": "user", "message": "why did it fail?"}'] * 3,
        ["train\t0.5", "valid\t0.7", "train\t0.4"],
        ['{"log": "step 1"}'],  # by whom it was taken down, nothing says
        ["\tat lumen.Train.step(Train.java:31)", "\tat lumen.Train.main(Train.java:7)"],
        ["[rank0]: step 1", "[rank0]:   File"] * 4,
        [
            "step 1 loss 2.0",
            "step 2 loss 1.9",
            "step 3 loss 1.8",
            "step 4 loss 1.7",
            "step 5 loss 1.6",
        ],
        ["1  0.5", "2  0.4", "4  0.3", "9  0.2", "3  0.1"],
        ["loss <b>2.0</b> &lt;pad&gt;", "a < b &amp; c"],
        ["sample:", "```", "x = 1", "```", "sample:", "```", "y = 1", "```"],
    ],
)
def test_a_log_as_it_was_written_lies_in_nothing(lines: list[str]) -> None:
    assert layers("".join(f"{line}\n" for line in lines).encode()) == ()


def test_lines_are_joined_over_pieces() -> None:
    whole = "".join(f"{docker(line)}\n" for line in WROTE).encode()
    data = whole + b"torn {\n" + b'{"log": "a'
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    told = b"".join(unwrapped(pieces, layers(whole))).decode().split("\n")
    assert told == [*WROTE, "torn {", '{"log": "a', ""]


def test_a_line_without_an_end_is_not_waited_for() -> None:
    head, piece = b"> step\n" * 9, b"x" * (1 << 20)
    given = (head, *(piece for _ in range(40)), b"\n> last\n")
    found = [*unwrapped(iter(given), layers(head))]
    assert max(map(len, found)) < 20 << 20
    assert b"".join(found) == b"step\n" * 9 + b"x" * (40 << 20) + b"\nlast\n"


@pytest.mark.parametrize("head", [b"", b"\n", b"x" * (1 << 17), (b"9" * 6000 + b": a\n") * 6])
def test_a_head_that_lies_in_nothing(head: bytes) -> None:
    assert layers(head) == ()


def test_the_line_of_the_source_is_no_text() -> None:
    line = b'{"line": "42", "message": "step 1", "time": "03:04:05"}'
    assert b"".join(unwrapped([line], layers(line))) == b"step 1\n"


def test_who_quotes_may_say_so_above() -> None:
    data = ("Yesterday it wrote:\n\n" + "".join(f"> {line}\n" for line in WROTE * 2)).encode()
    told = b"".join(unwrapped([data], layers(data))).decode().split("\n")
    assert told[2:-1] == WROTE * 2


def test_tags_tell_programs_apart(tmp_path: Path) -> None:
    steps = [f"good\tstep {n} loss {2 - n / 10}" for n in range(9)]
    lines = [*(f"bad:1\t{line}" for line in WROTE), *steps, "good\tTraining finished."]
    (tmp_path / "tagged.txt").write_text("".join(f"{line}\n" for line in lines))
    body: Any = analyse([str(tmp_path)], RankLogOptions()).body
    assert body["first_failure"]["label"] == "bad-1"
    assert body["first_failure"]["what"] == "lumen.Gone: shard 3"


@pytest.mark.parametrize("around", ["{}", '{{"events": {}, "nextToken": "x"}}'])
@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_a_list_of_entries_is_read_as_it_was_written(
    tmp_path: Path, around: str, newest_first: bool, nested: bool
) -> None:
    rows: list[dict[str, Any]] = [
        {"timestamp": 1795866003178 + n, **({"jsonPayload": said} if nested else said)}
        for n, said in enumerate({"message": line} for line in WROTE)
    ]
    text = json.dumps(rows[::-1] if newest_first else rows, indent=2)
    (tmp_path / "entries.json").write_text(around.format(text))
    body: Any = analyse([str(tmp_path / "entries.json")], RankLogOptions()).body
    assert body["first_failure"]["what"] == "lumen.Gone: shard 3"
    assert body["first_failure"]["line"] == 6


@pytest.mark.parametrize(
    "data", [b'[{"message": "why did it fail?"}]', b'[{"message": "x", "time": 1}, 2]', b'[{"']
)
def test_another_list_is_no_log(data: bytes) -> None:
    assert entries_of(data) is None


def test_a_field_with_a_rank_names_who_wrote_a_message_and_its_traceback(tmp_path: Path) -> None:
    def line(rank: object, message: str, **fields: object) -> str:
        return json.dumps({"ts": "2026-11-20T03:11:02Z", "rank": rank, "msg": message, **fields})

    def raised(source: str, said: str) -> str:
        head = 'Traceback (most recent call last):\n  File "/a/t.py", line 5, in f\n'
        return f"{head}    {source}\n{said}"

    lost = "RuntimeError: Connection closed by peer [10.0.0.2]:4411"
    rows = [line(rank, "step done", level="info") for rank in (0, "1")]
    rows += [
        line(
            "1", "failed", level="error", exc=raised("x[7]", "IndexError: list index out of range")
        )
    ]
    rows += [line(0, "failed", level="error", exc=raised("dist.barrier()", lost))]
    (tmp_path / "job.jsonl").write_text("\n".join(rows) + "\n")
    first = analyse([str(tmp_path / "job.jsonl")], RankLogOptions()).body["first_failure"]
    assert (first["rank"], first["confidence"]) == (1, "certain")
    assert first["what"].startswith("IndexError")


NARROW = """\
node : lumen.js:155
At line:1 char:1
+ node serve.js > s.lo
g 2>&1
+ ~~~~~~~~~~~~~~~~~~~~
    + CategoryInfo
         : NotSpeci
    fied: (lumen.js) [
   ], RemoteException
    + FullyQualified
  ErrorId : Native
  CommandError

{}
    at new Lumens (fil
e:///lumen.js:9:14)

Node.js v22.12.0
"""


@pytest.mark.parametrize("code", ["utf-8", "utf-16"])
def test_what_powershell_broke_to_a_narrow_window_is_whole_again(tmp_path: Path, code: str) -> None:
    path = tmp_path / "job.log"
    path.write_text(NARROW.format("Error: Neither key or \nauthenticator given"), code)
    report = analyse([str(path)], RankLogOptions())
    assert report.verdict == "Error: Neither key or authenticator given"
    path.write_text(NARROW.format("a warning of the one \nserver was shown"), code)
    assert analyse([str(path)], RankLogOptions()).verdict != report.verdict


def test_a_traceback_that_a_page_has_run_together_is_read_by_its_frames(tmp_path: Path) -> None:
    flat = 'Loading 0% Traceback (most recent call last): File "a.py", line 3, in f g() File "b.py"'
    report = report_of(tmp_path, f"{flat}, line 7, in g h() KeyError: 'lumen'\n")
    assert raised_first(report) == (None, "KeyError: 'lumen'")
    assert report_of(tmp_path, f"{flat}, line\n").failed


def test_a_block_with_marks_of_code_in_it_is_still_the_log(tmp_path: Path) -> None:
    block = '  File "a.py", line 3, in f\n    g()\nValueError: neither `a`, nor b\n'
    report = report_of(tmp_path, f"It said:\n```\n{block}```\nNot with `-x`.\n")
    assert raised_first(report) == (None, "ValueError: neither `a`, nor b")


def test_a_check_of_ggml_that_a_report_quotes_is_an_end(tmp_path: Path) -> None:
    text = "```sh\nserve -m a.gguf\n```\nIt ends so:\n**`ggml.c:71: GGML_ASSERT(a == b) failed`**\n"
    assert [one.id for one in report_of(tmp_path, text).diagnoses] == ["rank_crashed"]


def test_a_last_line_that_is_cut_off_is_no_sign_of_work(tmp_path: Path) -> None:
    row = "lum.nanny - WARNING - Worker process {} was killed by signal 15\n"
    rows = "".join(map(row.format, (4711, 4712, 4713, 4714)))
    assert report_of(tmp_path, f"{rows}lum.nanny - WARNING - Worker process 4715").failed


_IN = '  File "/venv/lib/python3.11/site-packages/lumen/parts/{}.py", line {}, in {}\n    go()\n'
_STACK = (
    "Traceback (most recent call last):\n"
    + _IN.format("a_part_with_a_long_name", 7, "<module>")
    + _IN.format("fit", 1234, "fit_with_a_name_that_is_long")
    + _IN.format("fit", 4321, "fit_with_a_name_that_is_long")
    + "KeyError: 'of a key that is so long that no window has a line for it, and of more to it'\n"
)


@pytest.mark.parametrize("width", [72, 80, 94, 100])
def test_what_a_terminal_broke_to_its_width_is_whole_again(tmp_path: Path, width: int) -> None:
    lines = (
        line[at : at + width]
        for line in _STACK.splitlines()
        for at in range(0, max(1, len(line)), width)
    )
    broken = report_of(tmp_path, "".join(f"{line}\n" for line in lines))
    plain = report_of(tmp_path, _STACK)
    assert broken.body["first_failure"]["what"] == plain.body["first_failure"]["what"]
    frames = [report.body["tracebacks"][0]["frames"] for report in (broken, plain)]
    assert frames[0] == frames[1]


def test_what_was_raised_below_the_widest_frame_is_no_rest_of_it(tmp_path: Path) -> None:
    frame = _IN.format("fit", 4321, "fit_with_a_name_that_is_long").split("\n")[0]
    text = f"Traceback (most recent call last):\n{frame}\nStopIteration\nthe end\n"
    assert report_of(tmp_path, text).body["first_failure"]["what"] == "StopIteration"
