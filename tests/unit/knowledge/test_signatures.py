"""The knowledge base of known lines: every record on its own samples and on all others'."""

import pytest

from builders.prose import Prose
from postmortem.diagnose import rule
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.wordings import ErrorRole
from postmortem.facts.kernel_log import Fault, KernelKind
from postmortem.facts.signature import KEEPS, WHERE, Match, Signature
from postmortem.knowledge.messages import about, by_id, messages, signatures
from postmortem.readers.signatures import Signatures
from postmortem.report.model import Role

# What exceptions say is looked for in nothing but exceptions, where several may speak.
ALSO_IN = {"error message", "line", "process text"}
ALL = Signatures(item for item in signatures() if set(item.where) - ALSO_IN)
ERRORS = Signatures(item for item in signatures() if "error message" in item.where)

ALSO = {
    # The watchdog quotes the CUDA error that it met: both records speak of the line.
    "pgnccl-watchdog-cuda-error": {"cuda-illegal-access"},
    # What was not in time says as much as that it was not.
    "error-missing": {"store-wait-timeout", "error-peer-late"},
    "error-unreachable": {"error-client-socket"},
    # Which call of CUDA failed says more than that one did.
    "nccl-no-peer-access": {"nccl-cuda-call"},
    "nccl-peer-mapping": {"nccl-cuda-call"},
    "nccl-nvls-cuda1": {"nccl-cuda-call"},
    # Why it could not be spoken to says more than that it could not.
    "tls-certificate": {"http-unreachable"},
    # Which library it is says more than that one is not there.
    "gpu-driver-missing": {"library-missing"},
    "cuda-library-missing": {"library-missing"},
    "opengl-missing": {"library-missing"},
    # Which numbers were bad says more than that the monitor stopped.
    "monitor-bad-batch": {"monitor-stopped"},
    "monitor-bad-weight": {"monitor-stopped"},
}
"""Other signatures that rightly match a sample."""

HEALTHY = """\
[rank0]: 2026-11-21 13:00:00,123 - INFO - step 100 loss 0.4312 lr 1e-4 grad_norm 0.33
epoch 3:  50%|#####     | 500/1000 [01:23<01:23,  6.02it/s, loss=0.43]
NCCL version 2.27.5+cuda12.9
node1:900:950 [3] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node1:900:950 [3] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 8 - Init COMPLETE
W1121 10:00:00.000000 900 torch/distributed/run.py:766] Setting OMP_NUM_THREADS to 1
Saved checkpoint to /mnt/run/ckpt_0001.pt (free: 120 GB), 0 errors, timeout 1800 s
exitcode: 0, all ranks finished
Loaded model.safetensors in 3.2 s; watchdog timeout set to 600 seconds
    except torch.cuda.OutOfMemoryError as error:
    raise RendezvousTimeoutError(reason)
    from torch.distributed.elastic.rendezvous.api import RendezvousClosedError
# retry when the connection is closed by a remote peer; see docs on "No space left on device"
    if "CUDA out of memory" in str(error): torch.cuda.empty_cache()
logger.warning("DataLoader worker exited; restarting")
handling the case that the loss is nan: skipped
[ 1234.5] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.10
[ 1234.5] Out of memory handling is enabled for cgroup /slurm
user asked what "exit code 13" means; pid 137 exited with code 0
"""
"""Lines of healthy jobs, of source in tracebacks, and lines that quote the words."""


@pytest.mark.parametrize("record", signatures(), ids=lambda record: record.id)
def test_a_record_is_whole(record: Signature) -> None:
    assert record.role in set(Role)
    assert record.cause
    assert record.cause[-1] == "."
    assert record.next_steps
    assert record.reference
    assert set(record.where) <= set(WHERE)
    assert record.pattern or record.frames or record.sign
    assert bool(record.pattern) == bool(record.samples)
    assert record.part in {None, *ErrorRole}
    assert record.startup in {None, *StartupFault}
    assert record.event in {None, *KernelKind}
    assert record.fault in {None, *Fault}
    assert not (record.part or record.startup) or "error message" in record.where
    assert not record.keep or "line" in record.where
    assert set(record.keep) <= set(KEEPS)
    assert not any(step.endswith(".") or step[0].isspace() for step in record.next_steps)


@pytest.mark.parametrize(
    "record", [record for record in signatures() if record.pattern], ids=lambda record: record.id
)
def test_its_lines(record: Signature) -> None:
    engine = ALL if set(record.where) - ALSO_IN else ERRORS
    for sample in record.samples:
        found = {hit.id for hit in engine.find(b"before\n" + sample.encode() + b"\nbehind\n")}
        assert record.id in found
        assert found <= {record.id} | ALSO.get(record.id, set()), sample
    for line in record.unlike:
        assert record.id not in {hit.id for hit in ALL.find(line.encode())}


def test_ids_are_of_one_thing() -> None:
    kinds = ("core", "tensors", "strace", "ranks", "hang")
    rules = {item.id for kind in kinds for item in rule.load(kind)}
    assert len(by_id()) == len(messages())
    assert not rules & by_id().keys()
    assert {record.rule for record in signatures() if record.rule} <= rules


def test_healthy_lines_are_left_alone() -> None:
    for line in HEALTHY.splitlines():
        assert [hit.id for hit in Signatures.load().find(line.encode())] == []


def test_text_is_looked_for_without_what_only_strace_prints() -> None:
    loaded = Signatures.load()
    ids = {one.id for one in loaded.signatures}
    assert ("strace-futex" in ids, "estale" in ids) == (False, True)
    assert "strace-futex" in {one.id for one in Signatures.load("strace").signatures}
    assert Signatures.load() is loaded


def test_groups_that_others_rely_on() -> None:
    (hit,) = ALL.find(b"RuntimeError: [pair.cc:553] Connection closed by peer [10.77.0.2]:2259. x")
    assert (hit.id, hit.role) == ("gloo-closed", "cascade")
    assert hit.groups == {"peer": "10.77.0.2", "port": "2259"}


def test_what_no_text_shows_is_decided_by_a_rule() -> None:
    """Stacks of cores and lines of strace are facts of their own: a rule looks at them."""
    for record in signatures():
        if set(record.where) & {"core frames", "strace"}:
            assert record.rule is not None, record.id


@pytest.mark.parametrize(
    "match",
    [
        Match("dl-killed", {"pid": "4711", "signal": "Killed"}),
        Match("dl-exited", {"pids": "4711, 4712"}),
        Match("ld-undefined", {"library": "/job/my ops.so; rm -r x", "symbol": "f"}),
        Match("ckpt-iostream", {}),
        Match("ckpt-cannot-open", {"file": "/job/a/0.pt"}),
    ],
    ids=lambda one: one.id if isinstance(one, Match) else "",
)
def test_what_was_found_stands_in_the_steps(match: Match, prose: Prose) -> None:
    prose(about(match).next_steps[0])
