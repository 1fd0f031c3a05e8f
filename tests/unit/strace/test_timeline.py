"""--trace: decoded with the protobuf classes of the perfetto package."""

from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.recordings import CORPUS
from postmortem.cli.main import main

perfetto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

RANK = """\
{p} {t}.000000 execve("/usr/bin/python3", ["python3", "train.py", "{n}"], 0x7 /* 1 var */) = 0 \
<0.000300>
{p} {t}.010000 openat(AT_FDCWD, "/data/{n}", O_WRONLY) = 3 <0.000050>
{p} {t}.020000 write(3, "x", 1) = 1 <0.200000>
{p} {t}.300000 ioctl(3, TCGETS, 0x7) = -1 ENOTTY (Inappropriate ioctl for device) <0.000004>
{p} {t}.310000 write(3, "x", 1) = -1 ENOSPC (No space left on device) <0.000004>
{p} {t}.400000 futex(0x7f, FUTEX_WAIT, 0, NULL <unfinished ...>
{p} {t}.900000 --- SIGTERM {{si_signo=SIGTERM, si_code=SI_USER, si_pid=1, si_uid=0}} ---
{p} {t}.950000 +++ killed by SIGTERM +++
"""


class Decoded:
    """A trace as a viewer sees it: interned names resolved, slices closed."""

    def __init__(self, path: Path) -> None:
        trace = perfetto.Trace()
        trace.ParseFromString(path.read_bytes())
        self.packets = list(trace.packet)
        self.processes: dict[int, Any] = {}
        self.threads: dict[int, Any] = {}
        self.clocks: list[Any] = []
        self.slices: list[dict[str, Any]] = []
        self.instants: list[dict[str, Any]] = []
        texts: dict[int, dict[str, dict[int, str]]] = {}
        open_slices: dict[int, list[dict[str, Any]]] = {}
        self._as_sequences()
        self._as_sorted()
        for packet in self.packets:
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid, "0 is the default track"
                assert track.uuid not in self.processes | self.threads
                if track.HasField("process"):
                    self.processes[track.uuid] = track.process
                else:
                    self.threads[track.uuid] = track.thread
            if packet.HasField("clock_snapshot"):
                self.clocks.append({c.clock_id: c.timestamp for c in packet.clock_snapshot.clocks})
            if not packet.HasField("track_event"):
                continue
            if packet.sequence_flags & 1:
                texts[packet.trusted_packet_sequence_id] = {}
            known = texts[packet.trusted_packet_sequence_id]
            for field, entries in packet.interned_data.ListFields():
                for entry in entries:
                    assert entry.iid, "0 is no id"
                    text = entry.str.decode() if field.name.endswith("values") else entry.name
                    assert known.setdefault(field.name, {}).setdefault(entry.iid, text) == text
            self._event(packet, known, open_slices)
        assert not any(open_slices.values()), "a slice has no end"
        # A thread is put into the process with its pid; each of both has a track of its own.
        pids = {process.pid for process in self.processes.values()}
        assert {thread.pid for thread in self.threads.values()} <= pids
        assert all(thread.tid for thread in self.threads.values())

    def _as_sequences(self) -> None:
        """Check what trace_processor drops packets for: state that is not valid, no sequence."""
        valid: set[int] = set()
        for packet in self.packets:
            sequence = packet.trusted_packet_sequence_id
            assert sequence, "state belongs to a sequence"
            if packet.sequence_flags & packet.SEQ_INCREMENTAL_STATE_CLEARED:
                assert sequence not in valid, "names are thrown away with the state"
                valid.add(sequence)
            if packet.HasField("interned_data") or packet.HasField("track_event"):
                assert sequence in valid
                assert packet.sequence_flags & packet.SEQ_NEEDS_INCREMENTAL_STATE
            if packet.HasField("track_event"):
                assert packet.HasField("timestamp")
                assert not packet.timestamp_clock_id  # the clock of the trace

    def _as_sorted(self) -> None:
        """Check that slices nest when sorted by time, ties as they stand: so they are read."""
        depth: dict[int, int] = {}
        events = [packet for packet in self.packets if packet.HasField("track_event")]
        for packet in sorted(events, key=lambda packet: packet.timestamp):
            event = packet.track_event
            if event.type == event.TYPE_SLICE_BEGIN:
                depth[event.track_uuid] = depth.get(event.track_uuid, 0) + 1
            elif event.type == event.TYPE_SLICE_END:
                depth[event.track_uuid] = depth.get(event.track_uuid, 0) - 1
            assert depth.get(event.track_uuid, 0) in (0, 1)

    def _event(self, packet: Any, known: Any, open_slices: Any) -> None:
        event = packet.track_event
        assert event.track_uuid in self.processes | self.threads, "described before it is used"
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_END:
            slice_ = stack.pop()
            slice_["end"] = packet.timestamp
            assert slice_["end"] >= slice_["start"]
            return
        made = {
            "track": event.track_uuid,
            "start": packet.timestamp,
            "name": known["event_names"][event.name_iid],
            "category": [known["event_categories"][i] for i in event.category_iids],
        }
        for note in event.debug_annotations:
            key = known["debug_annotation_names"][note.name_iid]
            value = {
                "string_value_iid": lambda n: known["debug_annotation_string_values"][
                    n.string_value_iid
                ],
                "string_value": lambda n: n.string_value,
                "int_value": lambda n: n.int_value,
            }[note.WhichOneof("value")](note)
            made[key] = value
        if event.type == event.TYPE_SLICE_BEGIN:
            assert not stack, "calls of a task are one behind another"
            stack.append(made)
            self.slices.append(made)
        else:
            assert event.type == event.TYPE_INSTANT
            self.instants.append(made)


def traced(tmp_path: Path, *arguments: str) -> Decoded:
    out = tmp_path / "out.perfetto-trace"
    main(["strace", *arguments, "--trace", str(out), "-o", str(tmp_path / "report")])
    return Decoded(out)


def rank_log(tmp_path: Path, name: str, pid: int, second: int) -> str:
    path = tmp_path / name
    path.write_text(RANK.format(p=pid, t=second, n=name))
    return str(path)


def test_a_run_that_ran_out_of_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    log = rank_log(tmp_path, "rank0", 70, 1_700_000_000)
    got = traced(tmp_path, log)
    start = 1_700_000_000 * 10**9
    calls = [s for s in got.slices if s["track"] in got.threads]
    assert [(s["name"], s["category"], s.get("path")) for s in calls] == [
        ("write", ["call"], "/data/rank0"),
        ("write ENOSPC", ["failed"], "/data/rank0"),
        ("futex", ["unfinished"], None),
    ]
    long = calls[0]
    assert (long["start"], long["end"]) == (start + 20_000_000, start + 220_000_000)
    assert (long["fd"], long["result"], long["line"], long["log"]) == (3, 1, 3, log)
    assert long["opened at line"] == 2
    assert long["call"].startswith("write(3, ")
    assert calls[1]["errno"] == "ENOSPC"
    assert calls[2]["end"] == start + 950_000_000  # it died in it
    (life,) = (s for s in got.slices if s["track"] in got.processes)
    assert (life["name"], life["start"], life["end"]) == (
        "python3 train.py",
        start,
        start + 950_000_000,
    )
    assert [i["name"] for i in got.instants] == ["SIGTERM", "killed by SIGTERM"]
    (process,) = got.processes.values()
    assert (process.pid, process.process_name) == (70, "python3 train.py")
    assert list(process.cmdline) == ["python3", "train.py", "rank0"]
    (thread,) = got.threads.values()
    assert (thread.pid, thread.tid, thread.thread_name) == (70, 70, "python3 train.py")
    assert got.clocks == [{6: start, 1: start}]
    prose(capsys.readouterr().err)


def test_all_calls_on_demand(tmp_path: Path) -> None:
    log = rank_log(tmp_path, "rank0", 70, 1_700_000_000)
    got = traced(tmp_path, log, "--trace-all")
    names = [s["name"] for s in got.slices if s["track"] in got.threads]
    # ENOTTY is how a program asks: no failure
    assert names == ["execve", "openat", "write", "ioctl", "write ENOSPC", "futex"]


def test_ranks_are_merged_on_one_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = [
        rank_log(tmp_path, "rank0", 70, 1_700_000_000),
        rank_log(tmp_path, "rank1", 70, 1_700_000_002),
    ]
    got = traced(tmp_path, *logs)
    lives = [s for s in got.slices if s["track"] in got.processes]
    assert [s["start"] for s in lives] == [1_700_000_000 * 10**9, 1_700_000_002 * 10**9]
    names = [process.process_name for process in got.processes.values()]
    assert names == ["rank0: python3 train.py", "rank1: python3 train.py"]
    # The same pid on another host: a viewer would take the two for one.
    assert [process.pid for process in got.processes.values()] == [70, 10_000_070]
    assert {thread.pid for thread in got.threads.values()} == {70, 10_000_070}
    assert "record with" not in capsys.readouterr().err
    paths = {s["path"] for s in got.slices if "path" in s}
    assert paths == {"/data/rank0", "/data/rank1"}


def test_a_rank_is_named_where_its_environment_tells(tmp_path: Path) -> None:
    path = tmp_path / "log"
    environment = '["PATH=/bin", "RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=8"]'
    path.write_text(
        RANK.format(p=70, t=1_700_000_000, n="r").replace("0x7 /* 1 var */", environment)
        + "71 1700000001.000000 fsync(3) = 0 <0.500000>\n"
    )
    got = traced(tmp_path, str(path))
    names = [process.process_name for process in got.processes.values()]
    assert names == ["rank 3: python3 train.py", "process"]
    lives = {s["pid"]: s for s in got.slices if s["track"] in got.processes}
    assert lives[70]["rank"] == "3"
    assert "rank" not in lives[71]


def test_stamps_of_r_alone_have_a_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        '7      0.000000 execve("/bin/x", ["x"], 0x7 /* 1 var */) = 0\n'
        "7      2.000000 fsync(3) = -1 EIO (Input/output error)\n"
        "7      3.000000 +++ exited with 1 +++\n"
    )
    got = traced(tmp_path, str(path))
    (life,) = (s for s in got.slices if s["track"] in got.processes)
    assert (life["start"], life["end"]) == (0, 5 * 10**9)
    assert [i["start"] for i in got.instants if i["name"] == "fsync EIO"] == [2 * 10**9]


def test_logs_without_dates_are_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    logs = []
    for name, second in (("rank0", 0), ("rank1", 5)):
        path = tmp_path / name
        path.write_text(RANK.format(p=70, t=f"10:00:0{second}", n=name))
        logs.append(str(path))
    got = traced(tmp_path, *logs)
    prose(capsys.readouterr().err)
    lives = [s["start"] for s in got.slices if s["track"] in got.processes]
    assert lives[1] - lives[0] == 5 * 10**9
    assert not got.clocks
    dated = rank_log(tmp_path, "rank2", 71, 1_700_000_000)
    got = traced(tmp_path, dated, logs[0])
    prose(capsys.readouterr().err)
    lives = [s["start"] for s in got.slices if s["track"] in got.processes]
    assert lives[0] == lives[1]


def test_without_stamps_there_is_no_timeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    path = tmp_path / "log"
    path.write_text("1 close(3) = -1 EBADF (Bad file descriptor)\n")
    got = traced(tmp_path, str(path))
    assert not got.slices
    prose(capsys.readouterr().err)


def test_threads_lie_in_their_process(tmp_path: Path) -> None:
    flags = "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD"
    path = tmp_path / "log"
    path.write_text(
        f"5 1.5 clone(child_stack=0x7f, flags={flags}) = 6 <0.000010>\n"
        "6 2.5 fsync(3) = 0 <0.500000>\n"
        "5 2.6 fork() = 7 <0.010000>\n"
        "7 2.7 fsync(3) = 0 <0.500000>\n".replace(" 1.5", " 1700000001.5").replace(
            " 2.", " 1700000002."
        )
    )
    got = traced(tmp_path, str(path))
    assert [process.pid for process in got.processes.values()] == [5, 7]
    assert {(t.tid, t.pid) for t in got.threads.values()} == {(5, 5), (6, 5), (7, 7)}
    lives = {s["pid"]: s for s in got.slices if s["track"] in got.processes}
    assert lives[7]["parent"] == 5


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("torchrun_tTy", False),
        ("dataloader_spawn_tTyy", False),
        ("enospc_scm_tT", False),
        ("enospc_scm_tT", True),
    ],
)
def test_real_recordings(name: str, every: bool, tmp_path: Path) -> None:
    path = CORPUS / f"{name}.strace.zst"
    got = traced(tmp_path, str(path), *(["--trace-all"] if every else []))
    assert len(got.slices) > 10
    assert len(got.processes) >= 1
    named = [s for s in got.slices if s.get("fd", -1) > 2 and "path" in s]
    assert named
