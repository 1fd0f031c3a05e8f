"""Real ends that once were told wrongly and for certain: what the readers must see of them."""

import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from builders.commands import allow_cores, execute
from builders.processes import speaking, until

pytest.importorskip("postmortem._native")

from postmortem.analyses.core import CoreOptions, analyse
from postmortem.report.model import Report

pytestmark = [
    pytest.mark.cores,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls of x86-64"),
]

PROGRAM = r"""
#define _GNU_SOURCE
#include <assert.h>
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define KEPT __attribute__((noinline))
static sigjmp_buf back;
static int fds[2];
static void leave(int s) { siglongjmp(back, 1); }
static void wait_for_debugger(int s, siginfo_t *i, void *u) {
  write(1, "ready\n", 6);
  if (fds[1]) write(fds[1], "x", 1);
  for (;;) pause();
}
static void handle(void) {
  struct sigaction a = {.sa_sigaction = wait_for_debugger, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &a, 0);
}
KEPT int deref(volatile int *p) { return *p; }
KEPT void *work(void *p) { return (void *)(long)deref(p); }
KEPT void check(int n) { assert(n == 7); }
KEPT void stop(void) { abort(); }
KEPT void assert_fail(void) { abort(); }
KEPT int leaf(void) {
  volatile char big[9 << 20];
  for (size_t i = 0; i < sizeof big; i += 4096) big[i] = 1;
  return big[99];
}
KEPT int walk(int n) {
  volatile char pad[64];
  pad[0] = 1;
  return n ? walk(n - 1) + pad[0] : leaf();
}
KEPT void trap_here(void) { __asm__ volatile("int3\n nop"); }
static pthread_t main_thread;
static void *hit(void *x) { usleep(50000); pthread_kill(main_thread, SIGABRT); return 0; }
static void *raiser(void *x) {
  char b;
  read(fds[0], &b, 1);
  signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
  return 0;
}
KEPT int trace(int n) {
  volatile char line[512];
  memset((void *)line, n, 512);
  return n < 0 ? 0 : trace(n + 1) + line[3];
}
static void report(int s) { trace(0); }
static volatile long turns;
KEPT void terminate_line(void) { for (;;) turns++; }
struct shared { pthread_mutex_t m; volatile int taken; };
static void containers(void) {
  struct shared *s = mmap(0, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, 1);
  pthread_mutex_init(&s->m, &a);
  for (int role = 0; role < 2; role++) {
    if (fork()) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWPID)) _exit(9);
    if (fork()) { wait(0); _exit(0); }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t both_are_two = fork();
    if (both_are_two) {
      usleep(400000);
      if (role) kill(both_are_two, SIGABRT);
      wait(0);
      _exit(0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!role) { pthread_mutex_lock(&s->m); s->taken = 1; for (;;) pause(); }
    while (!s->taken) usleep(1000);
    pthread_mutex_lock(&s->m);
  }
  sleep(2);
}
int main(int argc, char **argv) {
  const char *how = argv[1];
  pthread_t t;
#define IS(name) (!strcmp(how, name))
  if (IS("stale message")) {
    signal(SIGABRT, leave);
    if (!sigsetjmp(back, 1)) check(3);
    signal(SIGABRT, SIG_DFL);
    if (argc > 2) raise(SIGABRT);
    stop();
  }
  if (IS("own message")) check(3);
  if (IS("own assert_fail")) assert_fail();
  if (IS("large frame")) return walk(40);
  if (IS("handler's stack")) {
    char *room = mmap(0, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room + 4096, 15 << 12, PROT_READ | PROT_WRITE);
    stack_t own = {.ss_sp = room + 8192, .ss_size = 14 << 12};
    sigaltstack(&own, 0);
    struct sigaction a = {.sa_handler = report, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &a, 0);
    raise(SIGUSR1);
  }
  if (IS("siginfo passed on")) {
    siginfo_t i = {.si_signo = SIGSEGV, .si_code = SEGV_MAPERR};
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGSEGV, &i);
    pause();
  }
  if (IS("left handler")) {
    signal(SIGSEGV, leave);
    if (!sigsetjmp(back, 1)) deref(0);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  if (IS("name sounds so")) {
    main_thread = pthread_self();
    pthread_create(&t, 0, hit, 0);
    terminate_line();
  }
  if (IS("input by SIGABRT")) {
    pipe(fds);
    fcntl(fds[0], F_SETOWN, getpid());
    fcntl(fds[0], F_SETSIG, SIGABRT);
    fcntl(fds[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    write(fds[1], "x", 1);
    pause();
  }
  if (IS("call of 32 bits")) {
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_I386, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog p = {4, f};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 3;
    long r = 20;
    __asm__ volatile("int $0x80" : "+a"(r)::"memory");
  }
  if (IS("no thread pointer")) {
    long r = SYS_arch_prctl;
    __asm__ volatile("syscall\n mov %%fs:0, %0"
                     : "+a"(r) : "D"(ARCH_SET_FS), "S"(0L) : "rcx", "r11", "memory");
  }
  if (IS("raw futex")) {
    static struct { int word, count, user, n, kind; } box = {2, 1, 0, 1, 0};
    box.user = syscall(SYS_gettid);
    printf("ready\n");
    fflush(stdout);
    syscall(SYS_futex, &box.word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
  }
  if (IS("two containers")) { containers(); return 3; }
  if (IS("int3")) trap_here();
  handle();
  if (IS("handler waits")) deref(0);
  if (IS("handler waits in a thread")) {
    pthread_create(&t, 0, work, 0);
    pthread_join(t, 0);
  }
  if (IS("another thread raises")) {
    pipe(fds);
    pthread_create(&t, 0, raiser, 0);
    deref(0);
  }
  return 3;
}
"""

# (how, id, confidence, part of the title); what must not be certain is the first title of old
ENDS = [
    ("stale message", "aborted_by_itself", "certain", "stop"),
    ("own assert_fail", "aborted_by_itself", "certain", "assert_fail"),
    ("large frame", "stack_overflow", "likely", "leaf"),
    ("handler's stack", "stack_overflow", "likely", "trace"),
    ("siginfo passed on", "reraised_signal", "likely", "SIGSEGV"),
    ("left handler", "reraised_signal", "likely", "main"),
    ("another thread raises", "reraised_signal", "likely", "deref"),
    ("name sounds so", "sent_by_itself", "likely", ""),
    ("call of 32 bits", "forbidden_system_call", "certain", " 20 "),
    ("no thread pointer", "null_dereference", "likely", ""),
    ("two containers", "deadlock", "likely", ""),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    target = tmp_path_factory.mktemp("program") / "ends"
    target.with_suffix(".c").write_text(PROGRAM)
    command = [compiler, "-g", "-O1", "-w", "-fno-optimize-sibling-calls", "-o", str(target)]
    run = execute([*command, str(target.with_suffix(".c")), "-lpthread"])
    if run.returncode:
        pytest.skip(f"cannot be built here: {run.stderr[-200:]}")
    return target


def prepare() -> None:
    allow_cores()
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def core_in(folder: Path) -> Path:
    cores = sorted(folder.glob("core*"))
    if not cores:
        pytest.skip("no core: the kernel leaves none there, or may not do what the test needs")
    return cores[0]


def crash(program: Path, folder: Path, *how: str, kill: int | None = None, **more: str) -> Report:
    with speaking(program, *how, cwd=folder, preexec_fn=prepare) as (process, said):
        if kill is not None:
            said.readline()
            stat = Path(f"/proc/{process.pid}/stat")
            until(lambda: " (ends) S " in stat.read_text())  # it waits to be killed
            process.send_signal(kill)
        process.wait(30)
    return analyse(core_in(folder), CoreOptions(engine="native", **more))


@pytest.mark.parametrize(("how", "rule", "confidence", "named"), ENDS, ids=[e[0] for e in ENDS])
def test_an_odd_end_is_told_as_what_it_is(
    program: Path, tmp_path: Path, how: str, rule: str, confidence: str, named: str
) -> None:
    report = crash(program, tmp_path, how)
    found = {d.id: d for d in report.diagnoses}
    if how == "call of 32 bits" and rule not in found:
        pytest.skip("this kernel has no system calls of 32 bits")
    assert named in found[rule].title
    assert found[rule].confidence == confidence
    others = [d.id for d in report.diagnoses if d.confidence == "certain" and d.id != rule]
    assert set(others) <= {"killed_by_signal"}


@pytest.mark.parametrize("how", [("stale message",), ("own message",)], ids=lambda how: how[0])
def test_without_names_no_message_is_surely_of_this_end(
    program: Path, tmp_path: Path, how: tuple[str]
) -> None:
    (tmp_path / "none").mkdir()
    report = crash(program, tmp_path, *how, sysroot=str(tmp_path / "none"))
    found = {d.id: d.confidence for d in report.diagnoses}
    if "assertion_failed" not in found:
        pytest.skip("a C library that keeps no message")
    assert found["assertion_failed"] == "likely"
    assert "certain" not in found.values()


def test_with_names_the_message_is_of_this_end_or_not_told(program: Path, tmp_path: Path) -> None:
    for folder, how, told in (("a", ("own message",), True), ("b", ("stale message", "r"), False)):
        (tmp_path / folder).mkdir()
        report = crash(program, tmp_path / folder, *how)
        found = {d.id: d.confidence for d in report.diagnoses}
        assert found.get("assertion_failed") == ("certain" if told else None)


def test_a_signal_that_was_asked_for_at_input_is_no_abort(program: Path, tmp_path: Path) -> None:
    report = crash(program, tmp_path, "input by SIGABRT")
    assert not [d.title for d in report.diagnoses if d.confidence == "certain"]
    assert "aborted_by_itself" not in {d.id for d in report.diagnoses}


def test_a_futex_that_looks_like_a_mutex_is_no_deadlock(program: Path, tmp_path: Path) -> None:
    report = crash(program, tmp_path, "raw futex", kill=signal.SIGQUIT)
    told = {d.id: d.confidence for d in report.diagnoses}
    # That no other thread is there to end a wait is told of any private futex.
    assert told == {"deadlock": "possible", "killed_by_signal": told["killed_by_signal"]}
    (wait,) = (thread["waits_for"] for thread in report.body["threads"])
    assert "mutex" not in wait["what"]


@pytest.mark.parametrize("how", ["handler waits", "handler waits in a thread"])
def test_a_crash_handler_that_hangs_is_a_crash(program: Path, tmp_path: Path, how: str) -> None:
    report = crash(program, tmp_path, how, kill=signal.SIGQUIT)
    assert "deref" in report.diagnoses[0].title
    assert report.diagnoses[0].role == "root"
    certain = {d.id for d in report.diagnoses if d.confidence == "certain"}
    assert "killed_by_signal" not in certain


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")
@pytest.mark.parametrize("how", ["handler waits", "int3"])
def test_gdb_may_save_a_process_that_did_crash(program: Path, tmp_path: Path, how: str) -> None:
    run = ["-ex", "handle SIGSEGV nostop noprint pass", "-ex", "run", "-ex", "gcore core"]
    command = ["gdb", "-batch", "-nx", *run, "--args", str(program), how]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as gdb:
        assert gdb.stdout is not None
        if how != "int3":
            children = Path(f"/proc/{gdb.pid}/task/{gdb.pid}/children")
            line = next((row for row in gdb.stdout if row.startswith("ready")), None)
            pids = children.read_text().split() if line else []
            for pid in pids:
                os.kill(int(pid), signal.SIGINT)
        gdb.communicate(timeout=60)
    report = analyse(core_in(tmp_path), CoreOptions(engine="native"))
    assert report.failed
    certain = {d.id for d in report.diagnoses if d.confidence == "certain"}
    assert "killed_by_signal" not in certain
    assert ("deref" if how != "int3" else "trap_here") in report.diagnoses[0].title


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_thread_that_a_sanitizer_started_may_abort_itself(tmp_path: Path, sanitizer: str) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "t.cpp").write_text(
        "#include <cstdlib>\n#include <thread>\n"
        "__attribute__((noinline)) void stop() { abort(); }\n"
        "int main() { std::thread t([] { stop(); }); t.join(); }\n"
    )
    flags = [f"-fsanitize={sanitizer}", "-g", "-pthread", "-fno-optimize-sibling-calls"]
    build = subprocess.run(
        [compiler, *flags, "-o", str(tmp_path / "t"), str(tmp_path / "t.cpp")], capture_output=True
    )
    if build.returncode:
        pytest.skip("no such sanitizer here")
    options = {f"{name}_OPTIONS": "disable_coredump=0" for name in ("ASAN", "TSAN")}
    folder = tmp_path / "run"
    folder.mkdir()
    subprocess.run(
        [str(tmp_path / "t")],
        cwd=folder,
        env=os.environ | options,
        preexec_fn=prepare,
        capture_output=True,
        timeout=60,
    )
    report = analyse(core_in(folder), CoreOptions(engine="native"))
    assert "sanitizer_report" not in {d.id for d in report.diagnoses}
    assert "stop" in report.diagnoses[0].title
