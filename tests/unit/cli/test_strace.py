"""``postmortem strace`` as it is called: exit codes, inputs of all kinds, JSON as promised."""

import gzip
import io
import json
import lzma
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.recordings import CORPUS, unpacked
from builders.schema import validate
from postmortem.cli.main import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "strace.txt"
    path.write_bytes(unpacked("enospc_dup.strace.zst"))
    return path


def answer(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int) -> dict[str, Any]:
    assert main(["strace", *map(str, words), "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(document)
    return document


def the_path(document: dict[str, Any]) -> str | None:
    (match,) = document["finds"][0]["matches"]
    path: str | None = match["target"]["path"]
    return path


def test_find(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, log, "--find", "ENOSPC", code=1)
    (find,) = document["finds"]
    (match,) = find["matches"]
    assert find["query"] == "ENOSPC"
    assert (match["file"], match["syscall"], match["errno"]) == (str(log), "write", "ENOSPC")
    assert match["text"].startswith("write(4, ")
    assert match["target"]["path"] == "/data/job-001/mnt/real_target.bin"
    assert match["target"]["source"] == "tracked"
    assert match["target"]["opened"]["syscall"] == "openat"
    assert match["process"]["argv"][-2:] == ["dup", "/data/job-001/mnt"]
    assert document["lines"] == log.read_bytes().count(b"\n")
    assert document["unparsed_lines"] == 0
    assert document["diagnoses"][0]["id"] == "disk_full"


def test_the_line_is_the_one_of_the_file(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (match,) = answer(capsys, log, "--find", "ENOSPC", code=1)["finds"][0]["matches"]
    lines = log.read_text(errors="surrogateescape").splitlines()
    assert "ENOSPC" in lines[match["line"] - 1]
    assert "real_target.bin" in lines[match["target"]["opened"]["line"] - 1]


@pytest.mark.parametrize("pack", ["gz", "xz", "zst"])
def test_packed(pack: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / f"strace.txt.{pack}"
    data = log.read_bytes()
    packed.write_bytes(
        {
            "gz": lambda: gzip.compress(data),
            "xz": lambda: lzma.compress(data),
            "zst": lambda: (CORPUS / "enospc_dup.strace.zst").read_bytes(),
        }[pack]()
    )
    document = answer(capsys, packed, "--find", "ENOSPC", code=1)
    assert the_path(document) == "/data/job-001/mnt/real_target.bin"
    assert document["inputs"][0]["compression"] == {"gz": "gzip", "xz": "xz", "zst": "zstd"}[pack]


def test_a_packed_log_that_is_cut(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress(log.read_bytes())[:-400])
    document = answer(capsys, packed, "--find", "EDQUOT", code=0)
    assert document["inputs"][0]["truncated"]
    assert "end early" in document["problems"][0]["what"]


def test_a_folder_of_ff_and_its_prefix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for packed in sorted((CORPUS / "enospc_ff_fork").iterdir()):
        (tmp_path / packed.name.removesuffix(".zst")).write_bytes(
            unpacked(f"enospc_ff_fork/{packed.name}")
        )
    (tmp_path / "notes.txt").write_text("not a log\n")
    for name in (tmp_path, tmp_path / "l.strace"):
        document = answer(capsys, name, "--find", "ENOSPC", code=1)
        assert the_path(document) == "/data/job-001/mnt/opened_by_parent.bin"
        assert len(document["inputs"]) == 3


def test_several_alternatives_and_terms(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finds = answer(
        capsys, log, "--find", "EDQUOT,ENOSPC", "--find", "errno=ENOSPC path=*/decoy*", code=1
    )["finds"]
    assert [len(find["matches"]) for find in finds] == [1, 0]
    answer(capsys, log, "--find", "syscall=write errno=ENOSPC fd=4", code=1)
    answer(capsys, log, "--find", "syscall=write errno=ENOSPC fd=5", code=0)


def test_no_hit_is_no_failure(log: Path, capsys: pytest.CaptureFixture[str], prose: Prose) -> None:
    assert main(["strace", str(log), "--find", "EDQUOT"]) == 0
    out = capsys.readouterr().out
    prose(out.partition(";")[0])
    assert "strace -f -ttt -T" in " ".join(out.split())


def test_injected_hits_are_not_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_bytes(unpacked("fmt_v72_inject.strace.zst"))
    document = answer(capsys, log, "--find", "ENOSPC", code=1)
    assert all(row["injected"] for row in document["finds"][0]["matches"])
    assert document["diagnoses"] == []


def test_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_bytes(unpacked("ml_shm_buserror.strace.zst"))
    document = answer(capsys, log, code=1)
    assert document["diagnoses"][0]["id"] == "shared_memory_full"
    assert {"errno": "ENOSPC", "syscall": "fallocate", "count": 4} in document["errors"]
    assert document["files"]
    assert any(row["name"] == "openat" for row in document["syscalls"])


def test_a_healthy_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_bytes(unpacked("torchrun_tTy.strace.zst"))
    document = answer(capsys, log, code=0)
    assert (document["outcome"], document["diagnoses"]) == ("healthy", [])
    assert document["missing_libraries"] == []


def test_a_library_that_is_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_bytes(unpacked("misc_missing.strace.zst"))
    document = answer(capsys, log, code=0)
    (row,) = document["missing_libraries"]
    assert row["name"] == "libcudart_missing.so.12"
    assert len(row["searched"]) > 10


BAD = {
    "empty": (b"", "is empty"),
    "elf": (Path("/proc/self/exe").read_bytes()[:4096], "an ELF file"),
    "json": (b'{"a": 1}\n', "JSON"),
    "text": (b"hello\nworld (a test)\n", "text that starts with 'hello'"),
    "binary": (bytes(range(256)) * 40, "binary data"),
    "core": (
        b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\x00\x3e\x00" + bytes(44),
        "postmortem core",
    ),
    "ltrace": (
        b'__libc_start_main([ "ls" ], 0x7ffc <unfinished ...>\n'
        b"strrchr(\"ls\", '/')                 = nil\n"
        b"+++ exited (status 0) +++\n",
        "the output of ltrace",
    ),
    "perf": (b"     0.000 ( 0.010 ms): ls/7 close(fd: 3)     = 0\n" * 3, "perf trace"),
    "traceback": (b'Traceback (most recent call last):\n  File "a"\n', "postmortem logs"),
    "dmesg": (b"[    0.000000] Linux version 6.1\n" * 3, "dmesg"),
    "table": (b"% time     seconds  usecs/call     calls    errors syscall\n" * 2, "strace -c"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_log(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, words = BAD[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    assert main(["strace", str(path)]) == 3
    told = capsys.readouterr()
    assert words in told.err
    assert told.out == ""


def test_no_permission(tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["strace", str(log)])  # imports all that is needed while it may
    capsys.readouterr()
    log.chmod(0)
    nobody = os.geteuid() == 0
    try:
        if nobody:
            os.seteuid(65534)
        code = main(["strace", str(log)])
    finally:
        if nobody:
            os.seteuid(0)
    assert code == 3
    assert "permission" in capsys.readouterr().err.lower()


def test_a_named_pipe(tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = log.read_bytes()
    writer = threading.Thread(target=lambda: pipe.write_bytes(data))
    writer.start()
    document = answer(capsys, pipe, "--find", "ENOSPC", code=1)
    writer.join()
    assert the_path(document) == "/data/job-001/mnt/real_target.bin"


@pytest.mark.parametrize("words", [["strace"], ["core", "--slim", "out"]])
def test_a_named_pipe_that_nobody_writes_to(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    prose: Prose,
    words: list[str],
) -> None:
    monkeypatch.setattr("postmortem.readers.log_files._FIFO_MILLISECONDS", 50)
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert main([*words, str(tmp_path / "pipe")]) == 3
    assert not (tmp_path / "out").exists()
    prose(capsys.readouterr().err)


def test_a_folder_with_a_pipe_and_no_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "notes.txt").write_text("hello (there)\n")
    assert main(["strace", str(tmp_path)]) == 3
    prose(capsys.readouterr().err)


def test_a_log_that_shrinks_while_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    """It is cut as soon as the first bytes of it were read; the reader may still be too quick."""
    path = tmp_path / "log"
    line = b'7 openat(AT_FDCWD, "/a/b", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
    for _ in range(5):
        path.write_bytes(line * 1_500_000)
        begun = _bytes_read()
        done = threading.Event()

        def cut(begun: int = begun, done: threading.Event = done) -> None:
            while _bytes_read() < begun + (8 << 20) and not done.is_set():
                pass
            os.truncate(path, 1 << 20)

        cutter = threading.Thread(target=cut)
        cutter.start()
        code = main(["strace", str(path), "--find", "ENOSPC", "--json"])
        done.set()
        cutter.join()
        assert code == 0
        document = json.loads(capsys.readouterr().out)
        if document["problems"]:
            break
    prose(document["problems"][0]["what"].partition(":")[0])
    assert 0 < document["lines"] < 1_500_000


def _bytes_read() -> int:
    """Return the bytes that this process has read, as /proc/self/io counts them."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize("end", [b"\r\n", b"\n\0\n", b"\n\xff\xfe garbage \x1b[31m\n"])
def test_lines_that_end_strangely(
    end: bytes, tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd"
    path.write_bytes(log.read_bytes().replace(b"\n", end))
    assert the_path(answer(capsys, path, "--find", "ENOSPC", code=1)) == (
        "/data/job-001/mnt/real_target.bin"
    )


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.97])
def test_a_log_that_is_cut_anywhere(
    kept: float, tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = log.read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(data[: int(len(data) * kept)])
    document = answer(capsys, path, code=0)  # the full disk comes later
    assert document["unparsed_lines"] <= 1


def test_missing_and_empty_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    assert main(["strace", str(tmp_path / "none")]) == 3
    assert main(["strace", str(tmp_path)]) == 3
    (tmp_path / "readme").write_text("no log\n")
    assert main(["strace", str(tmp_path)]) == 3
    prose(capsys.readouterr().err)


@pytest.mark.parametrize(
    "query", ["", "bogus=1", "nOsPc", "pid=x ENOSPC", "errno=write", "slower=x", "SIGFOO"]
)
def test_queries_that_ask_nothing(query: str, log: Path) -> None:
    assert main(["strace", str(log), "--find", query]) == 2


def test_lines_of_ten_megabytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    long = b'1 write(3, "' + b"x" * (10 << 20) + b'", 10485760) = -1 ENOSPC (No space left)\n'
    path.write_bytes(b'1 openat(AT_FDCWD, "/a", O_WRONLY) = 3\n' + long + b"\0\0\n" + long)
    document = answer(capsys, path, "--find", "ENOSPC", code=1)
    assert [m["line"] for m in document["finds"][0]["matches"]] == [2, 4]
    assert {m["target"]["path"] for m in document["finds"][0]["matches"]} == {"/a"}
    assert all(len(m["text"]) < 20_000 for m in document["finds"][0]["matches"])
    assert document["unparsed_lines"] == 1


def test_secrets_of_command_lines_are_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text(
        '1 execve("/bin/x", ["x", "--password=hunter2hunter2"], 0x7f /* 1 var */) = 0\n'
        '1 openat(AT_FDCWD, "/a", O_WRONLY) = 3\n'
        '1 write(3, "hunter2hunter2", 14) = -1 ENOSPC (No space left on device)\n'
    )
    main(["strace", str(path), "--find", "ENOSPC", "--json"])
    assert "hunter2" not in capsys.readouterr().out


def test_how_to_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strace", "--record-hint"]) == 0
    assert capsys.readouterr().out.startswith("strace -f --seccomp-bpf ")
    assert main(["strace"]) == 2


def test_standard_input(log: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with log.open("rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        assert the_path(answer(capsys, "-", "--find", "ENOSPC", code=1)) is not None


@pytest.mark.parametrize("query", ["enospc", "path=real_target.bin", "errno=Enospc path=*.bin"])
def test_names_are_understood_as_they_are_typed(
    query: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = the_path_of_first(answer(capsys, log, "--find", query, code=1))
    assert path == "/data/job-001/mnt/real_target.bin"


def the_path_of_first(document: dict[str, Any]) -> str | None:
    path: str | None = document["finds"][0]["matches"][0]["target"]["path"]
    return path


@pytest.mark.parametrize("query", ["ENOSPCC", "EQQQ"])
def test_an_errno_that_is_none_is_a_usage_error(
    query: str, log: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    assert main(["strace", str(log), "--find", query]) == 2
    prose(capsys.readouterr().err)


def test_a_name_is_no_part_of_another(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, log, "--find", "path=target.bin", code=0)
    assert found["finds"][0]["matches"] == []
