"""One line of the kernel in every form that a tool gives it, and files that are none of its."""

import gzip
import json
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.facts.kernel_log import Fault, KernelEvent, KernelKind
from postmortem.facts.source import Problem
from postmortem.readers.kernel_log.read import read_events, read_kernel_logs
from postmortem.readers.kernel_log.stamps import stamped
from postmortem.readers.ranklogs.hung import KERNEL, kind_of_file

TEXT = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus"
SEGFAULT = "lumen main[4711]: segfault at 60 ip 616 sp 680 error 4 in liblum.so[7f00+5c000]"
NOV_21 = 1795226611.0  # 2026-11-21 02:03:31

NO_YEAR = 91159411.0  # the same of 1972

FORMS = {
    "plain": (f"[ 1234.567890] {TEXT}", None, None, 1234.56789),
    "priority": (f"<3>[ 1234.567890] {TEXT}", None, None, 1234.56789),
    "caller": (f"[ 1234.567890] [  T1234] {TEXT}", None, None, 1234.56789),
    "caller of RHEL": (f"[ 1234.567890][ T1234] {TEXT}", None, None, 1234.56789),
    "dmesg -x": (f"kern  :err   : [ 1234.567890] {TEXT}", None, None, 1234.56789),
    "dmesg -T": (f"[Sat Nov 21 02:03:31 2026] {TEXT}", None, NOV_21, None),
    "dmesg -x -T": (f"kern  :err   : [Sat Nov 21 02:03:31 2026] {TEXT}", None, NOV_21, None),
    "dmesg -e": (f"[Nov21 02:03] {TEXT}", None, NO_YEAR - 31, None),
    "dmesg -e, later": (f"[Nov21 02:03] x: y\n[  +0.000012] {TEXT}", None, None, None),
    "dmesg -d": (f"[ 1234.567890 <    0.000012>] {TEXT}", None, None, 1234.56789),
    "dmesg iso": (f"2026-11-21T02:03:31,123456+00:00 {TEXT}", None, NOV_21, None),
    "kmsg": (f"3,1234,1234567890,-;{TEXT}", None, None, 1234.56789),
    "journal": (f"Nov 21 02:03:31 node3 kernel: {TEXT}", "node3", NO_YEAR, None),
    "journal iso": (f"2026-11-21T02:03:31+0100 node3 kernel: {TEXT}", "node3", NOV_21, None),
    "journal precise": (
        f"2026-11-21T02:03:31.123456+01:00 n-3 kernel: {TEXT}",
        "n-3",
        NOV_21,
        None,
    ),
    "journal full": (f"Sat 2026-11-21 02:03:31 UTC node3 kernel: {TEXT}", "node3", NOV_21, None),
    "journal unix": (f"1795226611.000000 node3 kernel: {TEXT}", "node3", NOV_21, None),
    "journal monotonic": (f"[ 1234.567890] node3 kernel: {TEXT}", "node3", None, 1234.56789),
    "kern.log": (
        f"Nov  1 02:03:31 node3 kernel: [ 1234.567890] {TEXT}",
        "node3",
        NO_YEAR - 20 * 86400,
        1234.56789,
    ),
    "rsyslog": (
        f"2026-11-21T02:03:31.123456+00:00 node3 kernel: [12.5] {TEXT}",
        "node3",
        NOV_21,
        None,
    ),
    "pdsh": (f"node3: [ 1234.567890] {TEXT}", "node3", None, 1234.56789),
    "pdsh dmesg -T": (f"node3: [Sat Nov 21 02:03:31 2026] {TEXT}", "node3", NOV_21, None),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form(form: str, tmp_path: Path) -> None:
    line, host, time, uptime = FORMS[form]
    data = f"{line}\n".encode()
    (event,) = read_events(data, "dmesg")
    assert (event.number, event.device, event.fault) == (79, "0000:3b:00", Fault.HARDWARE)
    assert event.pid is None
    assert (event.host, event.time) == (host, time)
    if uptime is not None:
        assert event.uptime == pytest.approx(uptime)
    assert event.words == "Xid 79: GPU has fallen off the bus"
    file = tmp_path / "some-name.txt"
    file.write_bytes(data)
    assert kind_of_file(str(file)) == KERNEL
    crash = line.replace(TEXT, SEGFAULT).encode()
    assert [(e.pid, e.process, e.signal) for e in read_events(crash, "dmesg")] == [
        (4711, "lumen main", "SIGSEGV")
    ]


def test_who_wrote_a_record_is_told_by_its_facility(tmp_path: Path) -> None:
    file = tmp_path / "records.txt"
    text = "lumen-peer put_pages:127 ERROR the page is gone already\n"
    for head, kind in {
        "6,39,227996636,-;": KERNEL,
        "14,39,227996636,-;": None,  # a program wrote into /dev/kmsg
        "kern  :info  : [  227.996636] ": KERNEL,
        "user  :info  : [  227.996636] ": None,
    }.items():
        file.write_text(f"{head}{text}" * 3)
        assert kind_of_file(str(file)) == kind


def test_how_bad_an_error_of_a_link_is_stands_in_it() -> None:
    line = "[ 12.345678] NVRM: Xid (PCI:0000:3b:00): 145, RLW_RX {} XC0 i0 Link 3 (0x1 0x8)\n"
    for word, fault in {"Nonfatal": Fault.UNKNOWN, "Fatal": Fault.HARDWARE}.items():
        (event,) = read_events(line.format(word).encode(), "dmesg")
        assert (event.number, event.fault) == (145, fault)


def test_a_rotated_file_is_packed(tmp_path: Path) -> None:
    file = tmp_path / "kern.log.2.gz"
    file.write_bytes(gzip.compress(f"Nov 21 02:03:31 node3 kernel: {TEXT}\n".encode()))
    assert kind_of_file(str(file)) == KERNEL
    problems: list[Problem] = []
    assert [e.number for e in read_kernel_logs([str(file)], [], problems).events] == [79]
    assert problems == []


def test_json_of_journalctl() -> None:
    rows = [
        {"MESSAGE": "Started Session 7.", "SYSLOG_IDENTIFIER": "systemd", "_HOSTNAME": "node3"},
        {
            "MESSAGE": TEXT,
            "_TRANSPORT": "kernel",
            "_HOSTNAME": "node3",
            "__REALTIME_TIMESTAMP": "1795226611000000",
        },
        {"MESSAGE": list(TEXT.encode() + b"\xff"), "_TRANSPORT": "kernel", "_HOSTNAME": "node4"},
        {"MESSAGE": TEXT, "SYSLOG_IDENTIFIER": "someone", "_HOSTNAME": "node5"},
    ]
    text = "\n".join(map(json.dumps, rows))
    first, second = read_events(text.encode(), "journal.json")
    assert (first.line, first.host, first.time) == (2, "node3", NOV_21)
    assert (second.line, second.host) == (3, "node4")
    assert read_events(text.encode()[:-300], "journal.json")[0] == first  # cut in an object


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 0.4\nstep 2 loss 0.3\n",
        "[rank0]: step 1\n[rank0]: NVRM: Xid (PCI:0000:3b:00): 79, said the runbook\n",
        "[2026-11-21 02:03:31,123] [INFO] step 1\n",
        "[ 12.345678] step 1 loss 0.3\n[ 13.345678] step 2 loss 0.2\n",
        "Nov 21 02:03:31 node3 train[900]: step 1\nNov 21 02:03:32 node3 train[900]: step 2\n",
        '{"message": "step 1", "kernel": "5.15"}\n',
        "[Mon Jan  5 10:00:00 2026] lumen[4711]: no segfault at 60\n",
        "step 1 loss 0.4\nKilled process 4711 (lumen), as we wished\n",
        "Out of memory: 3 GiB asked for\n",
        "xe 0000:3b:00.0: [drm] GT0: Engine reset: engine_class=ccs\nRuntimeError: lost\n",
        "",
    ],
)
def test_logs_of_programs_are_none(text: str, tmp_path: Path) -> None:
    file = tmp_path / "job.out"
    file.write_text(text)
    assert kind_of_file(str(file)) is None


KILL = "Memory cgroup out of memory: Kill process 4711 (lumen) score 1957 or sacrifice child\n"
PROBE = (
    "[   43.308145] NVRM: The NVIDIA GPU 0000:3b:00.0\n"
    "               NVRM: (PCI ID: 10de:71) installed in this system has\n"
    "               NVRM: fallen off the bus and is not responding to commands.\n"
    "[   43.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
)

HUNG = (
    "xe 0000:3b:00.0: [drm] Xe device was found\n"
    "xe 0000:3b:00.0: [drm] GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=3\n"
)
FAULT = (
    "[Mon Jan  5 10:00:00 2026] lumen[4711]: segfault at 60 ip 00007f0000000616 sp "
    "00007ff000000680 error 4 in liblum.so[7f0000000000+5c000] likely on CPU 1 (core 8, socket 1)\n"
)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (FAULT, "dmesg-segfault"),
        (KILL, "dmesg-oom-memcg"),
        (PROBE, "dmesg-gpu-gone"),
        (HUNG, "dmesg-intel-gpu"),
    ],
)
def test_a_few_lines_as_they_are_pasted(text: str, known: str, tmp_path: Path) -> None:
    file = tmp_path / "job.out"
    file.write_text(text)
    assert kind_of_file(str(file)) == KERNEL
    assert [event.signature for event in read_events(text.encode(), "job.out")] == [known]


def test_a_dmesg_that_was_refused_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "dmesg.txt"
    file.write_text("dmesg: read kernel buffer failed: Operation not permitted\n")
    assert kind_of_file(str(file)) == KERNEL
    problems: list[Problem] = []
    assert read_kernel_logs([str(file)], [], problems).events == ()
    assert "Operation not permitted" in problems[0].what


def _one(line: str) -> KernelEvent:
    (event,) = read_events(f"[ 1234.567890] {line}\n".encode(), "dmesg")
    return event


@pytest.mark.parametrize(
    ("line", "place", "pid"),
    [
        (
            "python[7]: segfault at 0 ip 00007f26fc5b96b0 sp 00007fff8805a880 error 4 in"
            " m_c.so[66b0,7f26fc5b4000+11000] likely on CPU 1 (core 1, socket 0)",
            "m_c.so+0x66b0",
            7,
        ),
        (
            "a program[7]: segfault at 7f2600000000 ip 00007f26fc5b56b0 sp 00007fff8805a880 error 7"
            " in a program[7f26fc5b4000+11000]",
            "a program+0x16b0",
            7,
        ),
        ("python[7]: segfault at 10 ip 0000000000000010 sp 00007fff8805a880 error 14", None, 7),
        (
            "traps: plain[1071] general protection fault ip:55be975f46d7 sp:7fffe7bf27b0 error:0"
            " in plain[46d7,55be975f3000+2000]",
            "plain+0x46d7",
            1071,
        ),
        (
            "python[7]: unhandled level 2 translation fault (11) at 0x00000010, esr 0x92000006,"
            " in libfoo.so[ffff8a2b0000+5000]",
            "libfoo.so",
            7,
        ),
    ],
)
def test_crashes_in_words(line: str, place: str | None, pid: int, prose: Prose) -> None:
    event = _one(line)
    assert event.kind is KernelKind.CRASH
    assert (event.place, event.pid) == (place, pid)
    prose(event.words)
    assert event.signal == "SIGSEGV"


@pytest.mark.parametrize(
    ("line", "number", "fault", "pid", "process"),
    [
        ("NVRM: Xid (PCI:0000:08:00): 31, Ch 0000003b, intr 10000000.", 31, "program", None, None),
        ("NVRM: Xid (0000:08:00): 13, 0001 00000000 0000a297", 13, "program", None, None),
        (
            "NVRM: Xid (PCI:0000:08:00): 43, pid=12, name=python3, Ch 1",
            43,
            "aftermath",
            12,
            "python3",
        ),
        (
            "NVRM: Xid (PCI:0000:08:00): 94, pid='99', name=a b, Contained",
            94,
            "hardware",
            99,
            "a b",
        ),
        ("NVRM: Xid (PCI:0000:08:00): 120, pid=7, GSP task", 120, "hardware", 7, None),
        ("NVRM: Xid (PCI:0000:08:00): 999, pid=7, who knows", 999, "unknown", 7, None),
    ],
)
def test_xids(line: str, number: int, fault: str, pid: int | None, process: str | None) -> None:
    event = _one(line)
    assert (event.number, event.fault, event.pid, event.process) == (number, fault, pid, process)


def test_lines_of_one_kill_are_one_event_and_carry_the_table(prose: Prose) -> None:
    lines = [
        "[   10.000001] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents name",
        "[   10.000002] [  23056]     0 23056   204727    56491   774144        0   0 python",
        "[   10.000003] [  23057]     0 23057   712639   535483  4624384        0   0 python",
        "[   10.000004] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,"
        "task_memcg=/a,task=python,pid=23057,uid=0",
        "[   10.000005] Memory cgroup out of memory: Killed process 23057 (python)"
        " total-vm:2850556kB, anon-rss:2097152kB, file-rss:0kB",
        "[ 9010.000005] Memory cgroup out of memory: Killed process 23057 (python)"
        " total-vm:2850556kB, anon-rss:2097152kB, file-rss:0kB",
    ]
    first, again = read_events("\n".join(lines).encode(), "dmesg")
    assert first.beside == {23056, 23057}
    assert first.line == 5
    prose(first.words)
    assert again.uptime == pytest.approx(9010.000005)


def test_a_hung_task_has_its_stack() -> None:
    text = """\
[  1.000001] INFO: task python:2486 blocked for more than 120 seconds.
[  1.000002]       Not tainted 6.1.0-18-amd64 #1
[  1.000003] Call Trace:
[  1.000004]  <TASK>
[  1.000005]  __schedule+0x34d/0x9e0
[  1.000006]  ? srso_alias_return_thunk+0x5/0xfbef5
[  1.000007]  rpc_wait_bit_killable+0x11/0x70 [sunrpc]
[  1.000008]  </TASK>
[  1.000009] INFO: task sh:7 blocked for more than 120 seconds.
"""
    first, second = read_events(text.encode(), "dmesg")
    assert first.stack == ("__schedule", "rpc_wait_bit_killable")
    assert (first.pid, second.pid, second.stack) == (2486, 7, ())


def test_a_task_whose_state_is_written_down_waits_and_is_told_once() -> None:
    stack = "[  1.000002] Call Trace:\n[  1.000003]  ceph_fsync+0x59/0x3b0 [ceph]\n"
    text = f"[  1.000001] python          D    0  2486   2400 0x00004004\n{stack}"
    (one,) = read_events(text.encode(), "dmesg")
    assert (one.signature, one.pid, one.process) == ("dmesg-task-waits", 2486, "python")
    assert one.stack == ("ceph_fsync",)
    head = "[  1.000000] INFO: task python:2486 blocked for more than 120 seconds.\n"
    (hung,) = read_events((head + text).encode(), "dmesg")
    assert (hung.signature, hung.count) == ("dmesg-hung-task", 1)
    assert not read_events(text.replace("D  ", "S  ").encode(), "dmesg")


def test_hostile_lines() -> None:
    for text in (
        b"[99999999999999999999.0] NVRM: Xid (",
        b"\xff" * 5000,
        b"{" * 100_000,
        b'{"dmesg": [{"msg"',
        b"[ 1.000000] " + b"x[" * 50_000 + b": segfault at 0 ip",
        b"[Sat Foo 99 99:99:99 9999] Killed process 99999999999999999999 (x) total-vm:1kB\n",
        b'{"dmesg": [{"msg": 3}, {"msg": "x", "time": 1e400}, [], {"pri": null, "msg": "[1"}]}',
    ):
        for event in read_events(text, "dmesg"):
            assert event.pid is None or event.pid < 10**10
    assert stamped("Feb 29 10:00:00 node3 kernel: x").time is not None
    assert stamped("Xyz 29 10:00:00 node3 kernel: x").time is None


@pytest.mark.parametrize(
    ("before", "behind", "told"),
    [
        ("[90000.000001] eth0: up\n", "[    3.100000] eth0: up\n", True),
        ("", "[    3.100000] eth0: up\n", False),
        ("[    0.000000] microcode: updated early\n", "[    3.100000] eth0: up\n", False),
        ("[90000.000001] eth0: up\n", "[990000.100000] eth0: up\n", False),
    ],
)
def test_a_host_that_was_started_anew_is_told_for_a_day(
    before: str, behind: str, told: bool
) -> None:
    boot = "[    0.000000] Linux version 6.1.0-18-amd64 (build@lumen) (gcc-12)\n"
    found = read_events((before + boot + behind).encode(), "kern.log")
    assert [one.signature for one in found] == (["dmesg-boot"] if told else [])
