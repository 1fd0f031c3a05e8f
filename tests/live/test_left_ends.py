"""Ends whose first look misleads, each made on the spot: what is told of them."""

import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from builders.commands import crash_in

pytest.importorskip("postmortem._native")

from postmortem.analyses.core import CoreOptions, analyse
from postmortem.report.model import Report

pytestmark = [
    pytest.mark.cores,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here"),
]

PROGRAM = r"""
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#define KEPT __attribute__((noinline))
KEPT int read_row(volatile int *p) { return *p; }
struct Cache { ~Cache() { read_row((int *)24); } };
static thread_local Cache cache;
static void again(int s) { signal(s, SIG_DFL); raise(s); }
KEPT int sum(size_t n) {
  volatile char rows[n];
  for (size_t i = 0; i < n; i += 4096) rows[i] = 1;
  return rows[n / 2];
}
int main(int c, char **v) {
  const char *how = v[1];
  if (!strcmp(how, "thread")) { std::thread t([] { (void)&cache; }); t.join(); }
  if (!strcmp(how, "array")) { signal(SIGSEGV, again); sum(size_t(400) << (20 + c - 2)); }
  if (!strcmp(how, "divide")) {
    signal(SIGFPE, again);
    feenableexcept(FE_DIVBYZERO);
    volatile double zero = 0, row = 1 / zero;
    (void)row;
  }
  if (!strcmp(how, "links")) {
    __asm__ volatile(
        "mov %%rsp, %%rbp; movabs $0x7f7f7f7f7f7f7f7f, %%rbx;"
        "mov 24(%%rbp,%%rbx,8), %%rdi" ::: "memory");
  }
}
"""
HOST = r"""
#include <Python.h>
int main(int c, char **v) {
  if (!strcmp(v[1], "early")) PyList_New(2);
  Py_Initialize();
  if (!strcmp(v[1], "swapped")) { PyThreadState_Swap(NULL); PyRun_SimpleString("1"); }
  Py_Finalize();
  if (!strcmp(v[1], "late")) PyGILState_Ensure();
}
"""


def build(folder: Path, source: str, *options: str) -> Path:
    (folder / "main.cc").write_text(source)
    command = ["g++", "-g", "-O1", "-o", "main", "main.cc", "-pthread", *options]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180)
    if run.returncode:
        pytest.skip(f"cannot be built here: {run.stderr[-200:]}")
    return folder / "main"


def crash(program: Path, folder: Path, how: str) -> Report:
    return analyse(crash_in(folder, [str(program), how]), CoreOptions(engine="native"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("ends"), PROGRAM)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where, libraries = sysconfig.get_path("include"), sysconfig.get_config_var("LIBDIR")
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    options = (f"-I{where}", f"-L{libraries}", f"-l{name}", f"-Wl,-rpath,{libraries}")
    return build(tmp_path_factory.mktemp("host"), HOST, *options)


@pytest.mark.parametrize(
    ("how", "ids", "function"),
    [
        ("thread", ["null_dereference"], "read_row"),  # a thread's end is not the process's
        ("array", ["stack_overflow"], "sum"),  # no room for the handler, so the kernel's own code
        ("divide", ["reraised_signal"], "main"),  # the handler's copy came where it returned to
        ("links", ["bad_pointer"], "main"),  # SIGBUS by an address made of rbp, which is mapped
    ],
)
def test_what_failed_is_told(
    program: Path, tmp_path: Path, how: str, ids: list[str], function: str
) -> None:
    report = crash(program, tmp_path, how)
    assert [d.id for d in report.diagnoses] == ids
    assert report.diagnoses[0].confidence.value == "likely"
    assert function in report.diagnoses[0].title


@pytest.mark.parametrize(
    ("how", "api"),
    [("early", "PyList_New"), ("swapped", "PyRun_SimpleString"), ("late", "PyGILState_Ensure")],
)
def test_a_thread_without_a_state_of_python(host: Path, tmp_path: Path, how: str, api: str) -> None:
    report = crash(host, tmp_path, how)
    first, *others = report.diagnoses
    assert (first.id, first.confidence.value) == ("gil_not_held", "likely")
    assert api in first.title
    assert {(d.id, d.role.value) for d in others} == {("null_dereference", "contributing")}
