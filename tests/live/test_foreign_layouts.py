"""Cores as other kernels, linkers and tools lay them out: made of real crashes."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.commands import crash_in
from builders.processes import speaking
from builders.prose import Prose

pytest.importorskip("postmortem._native")

from builders import elf
from postmortem import _native
from postmortem.analyses.core import CoreOptions, analyse

pytestmark = [pytest.mark.cores]

LIBRARY = r"""
#include <unistd.h>
int lib_deref(int *p) { return *p; }
int lib_number(void) { return *(volatile int *)0xabc; }
int lib_sleep(void) { usleep(300000); return 7; }
"""
PROGRAM = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *f) { return (void *)(long)((int (*)(void))f)(); }
int main(int argc, char **argv) {
  void *lib = dlopen(argv[1], RTLD_NOW);
  if (!lib) return 2;
  void *f = dlsym(lib, argv[2]);
  if (argv[2][4] != 's') return ((int (*)(int *))f)(0);
  pthread_t thread;
  pthread_create(&thread, 0, work, f);
  usleep(100000);
  dlclose(lib);
  pthread_join(thread, 0);
  return 0;
}
"""
Crash = Callable[..., Path]


def compile_c(target: Path, source: str, *flags: str) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    text = target.with_suffix(".c")
    text.write_text(source)
    command = [compiler, "-O0", *flags, "-o", str(target), str(text), "-ldl", "-lpthread"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if run.returncode:
        pytest.skip(f"cannot be linked here: {run.stderr[-200:]}")
    return target


def crash(folder: Path, *command: str, dump: str | None = None) -> Path:
    return crash_in(folder, [*command], filtered=dump)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layouts")
    compile_c(folder / "main", PROGRAM)
    compile_c(folder / "lib.so", LIBRARY, "-shared", "-fPIC")
    return folder


@pytest.fixture(scope="module")
def core(built: Path) -> Path:
    return crash(built / "one", str(built / "main"), str(built / "lib.so"), "lib_deref")


def names(path: Path, **options: str) -> list[str | None]:
    report = _native.read_core(str(path), **options)
    thread = next(t for t in report["threads"] if t["tid"] == report["crashed_tid"])
    return [frame["function"] for frame in thread["frames"]]


def stripped_of(core: Path, *kinds: int) -> Path:
    target = core.with_name("without-" + "-".join(map(str, kinds)))
    target.write_bytes(elf.without_notes(core.read_bytes(), *kinds))
    return target


def test_without_a_list_of_files_the_loaders_own_list_serves(core: Path, built: Path) -> None:
    whole = names(core)
    assert whole[:2] == ["lib_deref", "main"]
    old = stripped_of(core, elf.NT_FILE)
    assert names(old) == whole
    before = {m["path"] for m in _native.read_core(str(core))["modules"]}
    after = {m["path"]: m["status"] for m in _native.read_core(str(old))["modules"]}
    assert str(built / "lib.so") in after
    assert {os.path.realpath(p) for p in after} == {os.path.realpath(p) for p in before}
    assert set(after.values()) <= {"ok", "unverified"}


def test_without_auxiliary_vector_the_program_is_known_by_its_header(
    core: Path, built: Path
) -> None:
    bare = stripped_of(core, elf.NT_FILE, elf.NT_AUXV)
    # The kernel's note has the program's name, not its folder: --python says where it is.
    assert names(bare, executable=str(built / "main"))[:2] == ["lib_deref", "main"]


def test_a_program_that_cannot_be_placed_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    bare = tmp_path / "core"
    bare.write_bytes(elf.CoreBuilder().thread(7, 11, pc=0x1234).process(7).build())
    report = _native.read_core(str(bare), executable="/bin/sh")
    assert any(row["where"] == "/bin/sh" for row in report["problems"])


def test_without_siginfo_the_instruction_tells_and_nothing_is_certain(
    core: Path, prose: Prose
) -> None:
    report = analyse(stripped_of(core, elf.NT_SIGINFO), CoreOptions(engine="native"))
    found = next(d for d in report.diagnoses if d.id == "null_dereference")
    assert found.confidence.value == "likely"
    assert report.body["signal"]["address"] is None
    prose(report.body["signal"]["explanation"])


def test_a_number_that_is_no_null_pointer_is_not_called_one_for_certain(built: Path) -> None:
    path = crash(built / "number", str(built / "main"), str(built / "lib.so"), "lib_number")
    report = analyse(path, CoreOptions(engine="native"))
    found = next(d for d in report.diagnoses if d.id == "null_dereference")
    assert found.confidence.value == "likely"
    assert "2748" in found.title


def test_a_return_into_an_unloaded_library_is_no_call(built: Path) -> None:
    path = crash(built / "unloaded", str(built / "main"), str(built / "lib.so"), "lib_sleep")
    report = analyse(path, CoreOptions(engine="native"))
    assert "bad_call" in {d.id for d in report.diagnoses}


def test_two_cores_of_one_crash_have_one_signature_without_any_header(built: Path) -> None:
    gone = built / "gone"
    gone.mkdir()
    main = Path(shutil.copy(built / "main", gone / "main"))
    library = Path(shutil.copy(built / "lib.so", gone / "lib.so"))
    paths = [
        crash(built / f"run{i}", str(main), str(library), "lib_deref", dump=dump)
        for i, dump in enumerate(("0x23", "0x23", "0x33"))  # bit 4: headers of ELF files
    ]
    main.unlink()
    library.unlink()
    found = {
        analyse(path, CoreOptions(engine="native")).body["signature"]["summary"] for path in paths
    }
    assert len(found) == 1
    assert "+0x7f" not in found.pop()


def test_a_small_library_of_an_old_linker_is_one_module(built: Path) -> None:
    old = built / "old.so"
    pages = "-Wl,-z,max-page-size=0x200000,-z,noseparate-code,--build-id=none"
    compile_c(old, LIBRARY, "-shared", "-fPIC", pages)
    path = crash(built / "old", str(built / "main"), str(old), "lib_deref")
    rows = [m for m in _native.read_core(str(path))["modules"] if m["path"] == str(old)]
    assert [row["status"] for row in rows] == ["unverified"]
    report = analyse(path, CoreOptions(engine="native"))
    assert "mismatched_module" not in {d.id for d in report.diagnoses}
    assert names(path)[:2] == ["lib_deref", "main"]


def test_another_file_without_build_id_is_told_by_what_cannot_change(built: Path) -> None:
    flags = ("-shared", "-fPIC", "-Wl,--build-id=none")
    library = compile_c(built / "plain.so", LIBRARY, *flags)
    path = crash(built / "plain", str(built / "main"), str(library), "lib_deref")
    more = LIBRARY + "int lib_more(void) { return 3; }\nextern int other(void);\n"
    compile_c(library, more, *flags, "-Wl,-z,now", "-Wl,-rpath,/nowhere")
    rows = [m for m in _native.read_core(str(path))["modules"] if m["path"] == str(library)]
    assert [row["status"] for row in rows] == ["mismatch"]
    without_list = stripped_of(path, elf.NT_FILE)
    assert "lib_more" not in names(without_list)


@pytest.mark.parametrize("gone", [False, True])
def test_the_c_librarys_last_words_need_no_library_of_the_same_build(
    tmp_path: Path, gone: bool
) -> None:
    source = "#include <assert.h>\nint main(int n, char **a) { assert(n == 7); return 0; }\n"
    program = compile_c(tmp_path / "check", source)
    path = crash(tmp_path / "run", str(program))
    (tmp_path / "empty").mkdir()
    sysroot = {"sysroot": str(tmp_path / "empty")} if gone else {}
    said = _native.read_core(str(path), **sysroot)["abort_message"]
    assert said is None or said.endswith("Assertion `n == 7' failed.")
    if said is None:
        pytest.skip("a C library that keeps no message")


DOTNET = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uchar.h>
static const char16_t said[] = u"Hook.Failed: no row 7\\n   at Hook.Start()";
__attribute__((noinline)) static void print(void) {
  volatile char16_t buffer[2048];
  for (unsigned i = 0; i < sizeof said / 2; i++) buffer[i] = said[i];
}
int main(int n, char **a) {
  int f = memfd_create(n > 1 ? "other" : "doublemapper", 0);
  ftruncate(f, 4096);
  mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, f, 0);
  print();
  abort();
}
"""


@pytest.mark.parametrize("more", [(), ("other",)], ids=["doublemapper", "another name"])
def test_what_dotnet_said_is_found_without_symbols(tmp_path: Path, more: tuple[str, ...]) -> None:
    program = compile_c(tmp_path / "hook", DOTNET, "-s")
    panic = _native.read_core(str(crash(tmp_path / "run", str(program), *more)))["panic"]
    assert panic == (None if more else (".NET", "Hook.Failed: no row 7\n   at Hook.Start()"))


def test_a_page_that_only_begins_like_a_message_is_none(tmp_path: Path) -> None:
    source = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
  char *page = mmap(0, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *(unsigned *)page = 4096;
  strcpy(page + 4, "tool: a.c:1: f: Assertion `x' failed.\\n");
  abort();
}
"""
    program = compile_c(tmp_path / "page", source)
    path = crash(tmp_path / "run", str(program))
    (tmp_path / "empty").mkdir()
    report = _native.read_core(str(path), sysroot=str(tmp_path / "empty"))
    assert report["abort_message"] is None


DUMPED = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void PROCCreateCrashDump(void) { for (;;) pause(); }
__attribute__((noinline)) void Os_Abort(void) { for (;;) pause(); }
__attribute__((noinline)) void serve(void) { for (;;) pause(); }
static void *work(void *how) {
  if (!strcmp(how, "crash")) PROCCreateCrashDump();
  if (!strcmp(how, "raised")) Os_Abort();
  serve();
  return 0;
}
int main(int argc, char **argv) {
  pthread_t thread;
  for (int i = 0; i < 3; i++) pthread_create(&thread, 0, work, i == 1 ? argv[1] : "serve");
  usleep(200000);
  puts("ready");
  fflush(stdout);
  serve();
}
"""


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")
@pytest.mark.parametrize(
    ("how", "place"), [("crash", "PROCCreateCrashDump"), ("raised", ""), ("living", None)]
)
def test_createdump_names_no_thread_and_the_one_that_failed_is_found(
    tmp_path: Path, how: str, place: str | None
) -> None:
    program = compile_c(tmp_path / "app", DUMPED)
    with speaking(program, how) as (process, said):
        said.readline()
        target = tmp_path / "core"
        save = ["gdb", "-batch", "-nx", "-p", str(process.pid), "-ex", f"gcore {target}"]
        subprocess.run(save, capture_output=True, timeout=60)
    if not target.exists():
        pytest.skip("gdb may not trace here")
    dump = tmp_path / "dump"
    dump.write_bytes(elf.as_createdump(target.read_bytes()))
    report = _native.read_core(str(dump))
    assert report["origin"] == "tool"
    stacks = {t["tid"]: [f["function"] for f in t["frames"]] for t in report["threads"]}
    if place is None:
        assert report["crashed_tid"] is None
    else:
        assert report["crashed_tid"] in stacks
        assert not place or place in stacks[report["crashed_tid"]]


@pytest.mark.skipif(shutil.which("go") is None, reason="needs go")
def test_go_keeps_the_function_that_dereferenced_nil(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text(
        "package main\n//go:noinline\nfunc deref(p *[2]int) int { return p[1] }\n"
        "func main() { var p *[2]int; println(deref(p)) }\n"
    )
    env = os.environ | {"GOCACHE": str(tmp_path / "cache"), "GOTRACEBACK": "crash"}
    command = ["go", "build", "-o", "serve", "main.go"]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=100)
    if run.returncode:
        pytest.skip("this go builds nothing")
    os.environ["GOTRACEBACK"] = "crash"
    try:
        path = crash(tmp_path / "run", str(tmp_path / "serve"))
    finally:
        del os.environ["GOTRACEBACK"]
    report = analyse(path, CoreOptions(engine="native"))
    assert "main.deref" in names(path)
    found = next(d for d in report.diagnoses if d.id == "go_panic")
    assert "nil pointer" in found.title
    assert "main.deref" in found.title
