"""Cores of other run-times, each made on the spot: who ended the process, and in what words."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from builders.commands import crash_in, execute
from builders.processes import speaking

pytest.importorskip("postmortem._native")

from postmortem.analyses.core import CoreOptions, analyse
from postmortem.report.model import Report

pytestmark = [pytest.mark.cores]

GO = """package main
import ("errors"; "os"; "sync"; "syscall")
//go:noinline
func load(how string) int {
	switch how {
	case "error": panic(errors.New("checksum of shard 7 differs"))
	case "deadlock": <-make(chan int)
	case "number": panic(42)
	case "other": panic([]int{42})
	case "unlock": new(sync.Mutex).Unlock()
	case "quit": syscall.Kill(os.Getpid(), syscall.SIGQUIT); select {}
	}
	return []int{1, 2, 3}[len(os.Args)+5]
}
func main() { println(load(os.Args[1])) }
"""
RUST = """
#[inline(never)] fn pick(v: &[i32], i: usize) -> i32 { v[i] }
fn main() {
    let n = std::env::args().count();
    if n == 2 { let _ = std::thread::spawn(move || println!("{}", pick(&[1], n + 2))).join(); }
    if n > 2 { panic!("a text without arguments") }
    println!("{}", pick(&[1, 2, 3], n + 5));
}
"""
DOTNET = """
using System; using System.Threading;
static class P {
  static void Load(string name) { throw new InvalidOperationException(name + " has 3 bytes"); }
  static void Main(string[] a) {
    if (a[0] == "throw") Load("part-007");
    if (a[0] == "stop") Environment.FailFast("the counter went backwards");
    Console.WriteLine("ready");
    Thread.Sleep(60000);
  }
}
"""


def build(folder: Path, *command: str, **env: str) -> None:
    run = execute(command, cwd=folder, env=os.environ | env)
    if run.returncode:
        pytest.skip(f"cannot be built here: {run.stderr[-200:]}")


def crash(folder: Path, *command: str, **env: str) -> Report:
    return analyse(crash_in(folder, [*command], **env), CoreOptions(engine="native"))


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("no go here")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(GO)
    build(folder, "go", "build", "-o", "serve", "main.go", GOCACHE=str(folder / "cache"))
    return folder / "serve"


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("error", "checksum of shard 7 differs"),
        ("index", "runtime error: index out of range [7] with length 3"),
        ("deadlock", "fatal error: all goroutines are asleep - deadlock!"),
        ("number", "42"),
        ("unlock", "fatal error: sync: unlock of unlocked mutex"),
        ("other", None),  # a value that is neither text nor a whole number is not guessed at
    ],
)
def test_gos_panic_has_its_words(go: Path, tmp_path: Path, how: str, text: str | None) -> None:
    report = crash(tmp_path / how, str(go), how, GOTRACEBACK="crash")
    said = report.body["panic"]
    assert said == (None if text is None else {"language": "Go", "text": text})
    found = next(d for d in report.diagnoses if d.id == "go_panic")
    assert found.confidence.value == "likely"
    assert (text or "main.load").removeprefix("runtime error: ") in found.title


def test_gos_handler_of_a_signal_is_no_abort(go: Path, tmp_path: Path) -> None:
    (found,) = crash(tmp_path / "quit", str(go), "quit", GOTRACEBACK="crash").diagnoses
    assert found.id == "aborted_by_itself"
    assert "handler" in found.title
    assert "abort()" not in found.title


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no rustc here")
def test_rusts_panic_has_its_words(tmp_path: Path) -> None:
    (tmp_path / "main.rs").write_text(RUST)
    build(tmp_path, "rustc", "-g", "-C", "panic=abort", "-o", "main", "main.rs")
    report = crash(tmp_path / "index", str(tmp_path / "main"))
    expected = "index out of bounds: the len is 3 but the index is 6 (at main.rs:2:56)"
    assert report.body["panic"] == {"language": "Rust", "text": expected}
    assert any("len is 3" in d.title for d in report.diagnoses if d.id == "fatal_log_message")
    # The same in a thread that has no name of its own.
    thread = crash(tmp_path / "thread", str(tmp_path / "main"), "a")
    assert "len is 1 but the index is 4 (at main.rs:" in thread.body["panic"]["text"]
    other = crash(tmp_path / "constant", str(tmp_path / "main"), "a", "b")
    assert other.body["panic"]["text"].startswith("a text without arguments (at main.rs:")
    # A constant stands nowhere but in the program: without that its line is told, and no words.
    (tmp_path / "main").unlink()
    (core,) = (tmp_path / "constant").glob("core*")
    bare = analyse(core, CoreOptions(engine="native")).body["panic"]["text"]
    assert "6:16" in bare
    assert "without arguments" not in bare


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
@pytest.mark.parametrize(
    ("flags", "program", "thrown"),
    [
        ("--max-old-space-size=50", "const a=[];for(;;)a.push(Array(1e5).fill(1))", False),
        ("--abort-on-uncaught-exception", "({}).shard.header", True),
        ("--no-warnings", "process.abort()", False),
    ],
)
def test_node_says_how_it_ended(tmp_path: Path, flags: str, program: str, thrown: bool) -> None:
    report = crash(tmp_path / "run", "node", flags, "-e", program)
    found = next(d for d in report.diagnoses if d.id == "node_end")
    assert report.diagnoses[0] is found
    said = report.body["panic"]
    if not thrown:
        assert said is None
    elif said is not None:  # V8's layout of strings, without compressed pointers
        assert said["text"].startswith("Uncaught TypeError: Cannot read properties of undefined")
        assert "Cannot read properties of undefined" in found.title


@pytest.fixture(scope="module")
def dotnet(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    host, compiler = shutil.which("dotnet"), shutil.which("mcs")
    if host is None or compiler is None:
        pytest.skip("no dotnet, or no mcs to compile for it")
    folder = tmp_path_factory.mktemp("dotnet")
    (folder / "app.cs").write_text(DOTNET)
    build(folder, "mcs", "-out:app.dll", "app.cs")
    listed = subprocess.run(["dotnet", "--list-runtimes"], capture_output=True, text=True)
    rows = [row.split()[1] for row in listed.stdout.splitlines() if "NETCore.App" in row]
    if not rows:
        pytest.skip("dotnet has no run-time here")
    framework = {"name": "Microsoft.NETCore.App", "version": rows[-1]}
    properties = {"System.Globalization.Invariant": True}
    options = {"runtimeOptions": {"framework": framework, "configProperties": properties}}
    (folder / "app.runtimeconfig.json").write_text(json.dumps(options))
    return [host, str(folder / "app.dll")]


def test_dotnets_exception_has_its_words(dotnet: list[str], tmp_path: Path) -> None:
    report = crash(tmp_path / "throw", *dotnet, "throw")
    assert "dotnet_end" in {d.id for d in report.diagnoses}
    said = report.body["panic"]
    assert said is None or "part-007 has 3 bytes" in said["text"]
    stopped = crash(tmp_path / "stop", *dotnet, "stop")
    assert any("FailFast" in d.title for d in stopped.diagnoses if d.id == "dotnet_end")


def test_createdump_of_a_living_process_is_a_snapshot(dotnet: list[str], tmp_path: Path) -> None:
    runtimes = Path(dotnet[0]).resolve().parent / "shared" / "Microsoft.NETCore.App"
    tools = sorted(runtimes.glob("*/createdump"))
    if not tools:
        pytest.skip("this run-time came without createdump")
    with speaking(*dotnet, "wait") as (process, said):
        said.readline()
        target = str(tmp_path / "dump")
        made = subprocess.run([str(tools[-1]), "-f", target, str(process.pid)], timeout=60)
    if made.returncode or not Path(target).exists():
        pytest.skip("createdump may not trace here")
    report = analyse(Path(target), CoreOptions(engine="native"))
    assert [d.id for d in report.diagnoses if d.id in ("snapshot", "aborted_by_itself")] == [
        "snapshot"
    ]
