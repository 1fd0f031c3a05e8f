"""--calls and --folded: every call as CSV, NDJSON and Parquet, and as stacks."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.recordings import CORPUS, zstd
from postmortem.cli.main import main

COLUMNS = (
    "file,line,began_line,pid,time,seconds,syscall,result,errno,injected,unfinished,fd,path,kind,"
    "deleted,source,bytes"
).split(",")

SECRETS = """\
5 1700000000.5 execve("/usr/bin/python3", ["python3", "train.py", "--api-key=hunter2hunter2"], \
0x7 /* 1 var */) = 0 <0.000100>
5 1700000000.6 openat(AT_FDCWD, "/run/hunter2hunter2/x", O_WRONLY) = 3 <0.000100>
5 1700000000.7 write(3, "hunter2hunter2", 14) = -1 ENOSPC (No space left on device) <0.500000>
5 1700000001.9 connect(4, {sa_family=AF_UNIX, sun_path="/s"}, 9 <unfinished ...>
5 1700000002.9 +++ exited with 1 +++
"""


def written(tmp_path: Path, text: str | bytes, *options: str, name: str = "log") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["strace", str(path), "-o", str(tmp_path / "report"), *options]) in (0, 1)
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_one_row_in_full(tmp_path: Path) -> None:
    out = tmp_path / "calls.ndjson"
    log = written(tmp_path, SECRETS, "--calls", str(out))
    rows = rows_of(out)
    assert [list(row) for row in rows] == [COLUMNS] * 4
    assert rows[2] == {
        "file": str(log),
        "line": 3,
        "began_line": 3,
        "pid": 5,
        "time": 1700000000.7,
        "seconds": 0.5,
        "syscall": "write",
        "result": -1,
        "errno": "ENOSPC",
        "injected": False,
        "unfinished": False,
        "fd": 3,
        "path": "/run/[masked: api-key]/x",
        "kind": "file",
        "deleted": False,
        "source": "tracked",
        "bytes": 0,
    }
    assert rows[3]["unfinished"] is True
    assert rows[3]["seconds"] is None
    assert rows[3]["path"] == "/s"


@pytest.mark.parametrize("name", ["torchrun_tTy", "enospc_weirdname_full", "fmt_stderr_m32"])
def test_the_three_forms_say_the_same(name: str, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    parquet = pytest.importorskip("pyarrow.parquet")
    data = zstd.decompress((CORPUS / f"{name}.strace.zst").read_bytes())[: 1 << 20]
    outs = [tmp_path / f"calls{ending}" for ending in (".ndjson", ".csv", ".parquet")]
    for out in outs:
        written(tmp_path, data, "--calls", str(out), "--no-redact")
    plain = rows_of(outs[0])
    texts = [row.pop("text") for row in plain]
    assert all(text.startswith(row["syscall"]) for text, row in zip(texts, plain, strict=True))
    with outs[1].open(newline="") as stream:
        table = [*csv.DictReader(stream)]
    assert len(table) == len(plain) > 50
    for left, right in zip(plain, table, strict=True):
        right.pop("text")
        assert {k: _text(v) for k, v in left.items() if k not in ("time", "seconds")} == {
            k: v for k, v in right.items() if k not in ("time", "seconds")
        }
        assert [left["time"], left["seconds"]] == [
            float(right[k]) if right[k] else None for k in ("time", "seconds")
        ]
    columns = parquet.read_table(outs[2]).to_pylist()
    assert [{**row, "time": None, "seconds": None} for row in columns] == [
        {**row, "time": None, "seconds": None} for row in plain
    ]
    for left, right in zip(plain, columns, strict=True):
        assert left["seconds"] == pytest.approx(right["seconds"], abs=1e-12)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return ""
    return "".join(c if c >= " " else f"\\x{ord(c):02x}" for c in str(value))


def test_names_that_break_tables(tmp_path: Path) -> None:
    odd = r"/we\"ird, \303\251 \377\33[31m\n"
    log = f'1 openat(AT_FDCWD, "{odd}", O_RDONLY) = 3\n'
    shown = '/we"ird, é \\xff\\x1b[31m\\x0a'
    out = tmp_path / "calls.csv"
    written(tmp_path, log, "--calls", str(out))
    with out.open(newline="", encoding="utf-8") as stream:
        assert [row["path"] for row in csv.DictReader(stream)] == [shown]
    assert b"\x1b" not in out.read_bytes()
    out = tmp_path / "calls.ndjson"
    written(tmp_path, log, "--calls", str(out))
    assert [row["path"] for row in rows_of(out)] == ['/we"ird, é \\xff\x1b[31m\n']
    assert b"\x1b" not in out.read_bytes()


@pytest.mark.parametrize("option", ["--calls", "--folded", "--trace"])
def test_secrets_are_masked_unless_asked_for(option: str, tmp_path: Path) -> None:
    for ending in (".ndjson", ".csv", ".parquet") if option == "--calls" else (".out",):
        out = tmp_path / f"out{ending}"
        if ending == ".parquet":
            pytest.importorskip("pyarrow")
        written(tmp_path, SECRETS, option, str(out))
        assert b"hunter2" not in out.read_bytes()
        written(tmp_path, SECRETS, option, str(out), "--no-redact")
        assert b"hunter2" in out.read_bytes()


def test_folded_stacks_in_microseconds(tmp_path: Path) -> None:
    out = tmp_path / "stacks"
    text = SECRETS + '5 1700000003.0 write(3, "a;b", 3) = 3 <0.250000>\n'
    written(tmp_path, text.replace("5 1700000002.9 +++ exited with 1 +++\n", ""), "--folded",
            str(out))  # fmt: skip
    assert out.read_text().splitlines() == [
        "process [5];thread 5;execve;/usr/bin/python3 100",
        "python3 train.py [5];thread 5;openat;/run/[masked: api-key]/x 100",
        "python3 train.py [5];thread 5;write;/run/[masked: api-key]/x 750000",
    ]


def test_folded_stacks_are_counts_without_durations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    out = tmp_path / "stacks"
    log = (
        '1 openat(AT_FDCWD, "/a;b\\n", O_WRONLY) = 3\n'
        '1 write(3, "x", 1) = 1\n1 write(3, "x", 1) = 1\n1 write(7, "x", 1) = 1\n'
    )
    written(tmp_path, log, "--folded", str(out))
    prose(*out.read_text().splitlines())
    prose(capsys.readouterr().err)


def test_weights_add_up_to_the_durations(tmp_path: Path) -> None:
    table, stacks = tmp_path / "calls.ndjson", tmp_path / "stacks"
    log = str(CORPUS / "torchrun_tTy.strace.zst")
    main(["strace", log, "-o", str(tmp_path / "r"), "--calls", str(table), "--folded", str(stacks)])
    seconds: Counter[str] = Counter()
    for row in rows_of(table):
        seconds[row["syscall"]] += row["seconds"] or 0
    weights: Counter[str] = Counter()
    for line in stacks.read_text().splitlines():
        frames, _, weight = line.rpartition(" ")
        weights[frames.split(";")[2]] += int(weight)
    assert weights.keys() <= seconds.keys()
    for name, total in seconds.items():
        assert weights[name] / 1e6 == pytest.approx(total, abs=1e-3)
