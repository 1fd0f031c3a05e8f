"""The fields of kind core: every name that the contract promises, with its type."""

import json
import re
from dataclasses import replace
from typing import Any

from builders.prose import Prose
from postmortem.facts.crash import AbortMessage, CppException, Fault, Instruction, Signal
from postmortem.facts.memory import Address, MappedFile, Module, Modules
from postmortem.facts.threads import Frame, RaisedException, Thread, Threads, Wait
from postmortem.present.core.body import core_body
from unit.present.views import LIBC, native, python, real_view, seed_frames, view

CONTRACT = {
    "process": {"pid", "executable", "argv", "env", "rank", "local_rank", "world_size", "hostname",
                "python_version"},
    "signal": {"number", "name", "code", "address", "sender_pid", "explanation"},
    "cpp_exception": {"type", "what"},
    "python_exception": {"type", "message"},
    "memory": {"mapped_bytes", "dumped_bytes", "by_kind"},
}  # fmt: skip
TOP = {*CONTRACT, "abort_message", "crashed_thread", "threads", "groups", "modules"}
THREAD = {"tid", "name", "python_name", "crashed", "holds_gil", "group", "python_exception",
          "waits_for", "frames"}  # fmt: skip
FRAME = {"kind", "function", "pc", "module", "file", "line", "inlined", "note"}
ADDRESS = re.compile("0x[0-9a-f]{16}")


def full_body() -> dict[str, Any]:
    """Return a body in which no field is empty, as JSON gives it back."""
    crashed = Thread(
        10,
        crashed=True,
        name="pt_nccl_watchdg",
        holds_gil=True,
        registers={"rip": 0xDEAD},
        frames=(*seed_frames(), python("train", "/home/u/train.py", 31)),
        python_exception=RaisedException("ValueError", "bad"),
        waits_for=Wait("lock", 0x7F10, 11),
    )
    other = Thread(11, frames=(replace(native("f", LIBC), pc=16, locals=(("a", "1"),)),))
    where = Address(0, mapped=False, above_start=4096)
    base = view(
        Threads((crashed, other), 11),
        signal=Signal(11, "SIGSEGV", 1, "SEGV_MAPERR", address=0, sender_pid=4, sender_uid=0),
        abort_message=AbortMessage("free(): invalid pointer"),
        cpp_exceptions=(CppException(10, "c10::DistBackendError", "NCCL error", "tls"),),
        modules=Modules((Module("/x/liba.so", 4096, 8192, "mismatch", "aa", "bb", "/x/liba.so"),)),
        fault=Fault(
            where, where, where, where,
            Instruction(0, b"\x0f\x0b", "ud2", "rax", 0, "read", "trap"),
            MappedFile("/dev/shm/x", 1, True, 2), 8 << 20,
        ),
    )  # fmt: skip
    process = replace(base.process, env=(("RANK", "3"),), rank=3)
    body = core_body(replace(base, process=process), with_locals=True)
    return json.loads(json.dumps(body, allow_nan=False))


def test_every_name_of_the_contract_is_there() -> None:
    body = full_body()
    assert set(body) >= TOP
    for key, names in CONTRACT.items():
        assert set(body[key]) >= names, key
    assert all(set(thread) >= THREAD for thread in body["threads"])
    assert all(set(f) >= FRAME for thread in body["threads"] for f in thread["frames"])
    assert all(set(group) >= {"id", "tids", "summary"} for group in body["groups"])
    assert set(body["modules"][0]) >= {"path", "build_id", "start", "end", "status"}
    assert set(body["threads"][0]["waits_for"]) >= {"what", "address", "holder"}


def test_values(prose: Prose) -> None:
    body = full_body()
    assert body["crashed_thread"] == 10
    assert body["registers"] == {"rip": "0x000000000000dead"}
    assert body["process"]["env"] == {"RANK": "3"}
    assert body["signal"]["address"] == "0x0000000000000000", "0 is an address"
    assert body["abort_message"] == "free(): invalid pointer"
    assert body["cpp_exception"]["type"] == "c10::DistBackendError"
    assert body["python_exception"] == {"type": "ValueError", "message": "bad"}
    assert body["modules"][0]["start"] == "0x0000000000001000"
    assert body["memory"]["by_kind"]["heap"] == 1 << 30
    crashed = body["threads"][0]
    assert crashed["role"] == "NCCL watchdog"
    prose(crashed["frames"][6]["note"])
    assert crashed["frames"][6]["function"] == seed_frames()[6].function, "names are not shortened"
    assert crashed["frames"][11]["kind"] == "python"
    assert crashed["frames"][11]["pc"] is None
    assert body["threads"][1]["frames"][0]["pc"] == "0x0000000000000010"
    assert body["fault"]["instruction"]["code"] == "0f0b"


def test_addresses_are_padded_strings_everywhere() -> None:
    text = json.dumps(full_body())
    found = re.findall(r'"(0x[^"]*)"', text)
    assert len(found) > 10
    assert all(ADDRESS.fullmatch(address) for address in found)


def test_groups_partition_the_threads() -> None:
    body = core_body(real_view("torch_terminate", 5839))
    tids = [tid for group in body["groups"] for tid in group["tids"]]
    assert sorted(tids) == sorted(thread["tid"] for thread in body["threads"])
    for thread in body["threads"]:
        assert thread["tid"] in body["groups"][thread["group"]]["tids"]
    assert [group["id"] for group in body["groups"]] == list(range(6))


def test_a_snapshot_has_no_signal_but_an_explanation() -> None:
    body = core_body(view((Thread(1),), signal=None, explanation="a snapshot by gcore"))
    assert body["signal"]["number"] is None
    assert body["signal"]["name"] is None
    assert body["signal"]["explanation"] == "a snapshot by gcore"
    assert body["crashed_thread"] is None
    assert body["cpp_exception"] is None
    assert body["python_exception"] is None
    assert body["fault"] is None


def test_locals_only_when_asked_for() -> None:
    frame = Frame("f", arguments=(("n", "1"),), locals=(("secret", "x"),))
    one = view((Thread(1, crashed=True, frames=(frame,)),))
    plain = core_body(one)["threads"][0]["frames"][0]
    assert "locals" not in plain
    assert plain["arguments"] == {"n": "1"}
    assert core_body(one, with_locals=True)["threads"][0]["frames"][0]["locals"] == {"secret": "x"}


def test_the_crashed_threads_exception_comes_first() -> None:
    exceptions = (CppException(2, "b", None, "tls"), CppException(1, "a", None, "stack"))
    one = view((Thread(2), Thread(1, crashed=True)), cpp_exceptions=exceptions)
    assert core_body(one)["cpp_exception"]["type"] == "a"


def test_two_threads_with_one_id_are_still_a_report() -> None:
    # a damaged core can name a thread twice
    body = core_body(view((Thread(1, crashed=True), Thread(1))))
    assert len(body["threads"]) == 2
