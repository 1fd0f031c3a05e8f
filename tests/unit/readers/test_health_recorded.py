"""Outputs of nvidia-smi and DCGM in files, in their public forms: never recorded from a GPU."""

import json
import os
from pathlib import Path

import pytest

from builders.commands import run_here as run
from builders.hosts import nvidia_smi
from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.readers.health.forms import is_health
from postmortem.readers.health.recorded import recorded_health

QUERY = """\

==============NVSMI LOG==============

Timestamp                                 : Sat Oct  3 04:22:31 2026
Driver Version                            : 535.161.08

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    GPU UUID                              : GPU-{uuid}
    PCI
        Replays Since Reset               : 3
    Clocks Event Reasons
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            DRAM Uncorrectable            : {uncorrected}
        Aggregate
            DRAM Correctable              : 177
            DRAM Uncorrectable            : {uncorrected}
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 0
        Pending                           : {pending}
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 639 bank(s)
"""


def cells(name: str, text: str) -> str:
    """Return rows of a table as dcgmi writes them: a long text is cut where the cell ends."""
    parts = [text[i : i + 45] for i in range(0, len(text), 45)]
    rows = zip([name] + [""] * len(parts), parts, strict=False)
    return "\n".join(f"| {first:<25} | {part:<45}  |" for first, part in rows)


HOT = "GPU 0 was too hot for 13.3 seconds, from 9.7 seconds into the test on"
WAITS = "GPU 3 has uncorrectable memory errors and row remappings are pending"
DIAGNOSTIC = f"""\
Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| Inforom                   | Pass                                           |
{cells("Info", "Persistence mode for GPU 0 is disabled. Enable it as root.")}
+-----  Hardware  ----------+------------------------------------------------+
| GPU Memory                | Pass - GPUs: 1, 2                              |
|                           | Fail - GPU: 0                                  |
{cells("Warning", HOT)}
+-----  Stress  ------------+------------------------------------------------+
| Targeted Stress           | Pass - All                                     |
+---------------------------+------------------------------------------------+
"""
PENDING = f"""\
| Diagnostic                | Result                                         |
|-----  Deployment  --------+------------------------------------------------|
{cells("Error", WAITS)}
"""
HEALTH = """\
+---------------------------+----------------------------------------------+
| Health Monitor Report                                                    |
+===========================+==============================================+
| Overall Health            | Failure                                      |
| GPU                       |                                              |
| -> 3                      | Failure                                      |
|    -> Errors              |                                              |
|       -> Memory system    | Failure                                      |
|                           | A double bit error was seen.                 |
+---------------------------+----------------------------------------------+
"""
LINKS = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-8c2b1c1e-aaaa)
\t Link 0: Replay Errors: 4
\t Link 0: Recovery Errors: {recoveries}
"""


def query(uncorrected: int = 0, pending: str = "No", uuid: str = "8c2b1c1e-aaaa") -> str:
    return QUERY.format(uncorrected=uncorrected, pending=pending, uuid=uuid)


def write(path: Path, text: str, taken: float = 1_000.0) -> str:
    path.write_text(text)
    os.utime(path, (taken, taken))
    return str(path)


def bad(path: str) -> list[tuple[str, str, str]]:
    """What is no zero among what DCGM's tests say."""
    now, _ = recorded_health([path])
    return [(row.subject, row.name, row.detail) for row in now.readings if row.value]


def test_the_text_of_a_query_has_the_numbers_that_its_xml_has(tmp_path: Path) -> None:
    text = query(2, "Yes")
    now, before = recorded_health([write(tmp_path / "smi.txt", text)])
    found = {row.name: row.value for row in now.readings}
    assert before is None
    assert {row.subject for row in now.readings} == {"GPU 0000:3b:00.0"}
    assert found == {
        "gpu_missing": 0,
        "ecc_uncorrected": 2,
        "ecc_uncorrected_ever": 2,
        "ecc_corrected": 177,
        "rows_remapped": 0,
        "remap_pending": 1,
        "remap_failed": 0,
        "gpu_slowed_heat": 1,
        "gpu_slowed_power": 0,
        "gpu_replays": 3,
    }
    xml = nvidia_smi(uncorrected=2, pending="Yes", hot="Active")
    now, _ = recorded_health([write(tmp_path / "smi.xml", xml)])
    same = {row.name: row.value for row in now.readings}
    for name in ("ecc_uncorrected", "remap_pending", "remap_failed", "gpu_slowed_heat"):
        assert same[name] == found[name]


def test_what_grew_between_two_files_of_one_machine(tmp_path: Path) -> None:
    after = write(tmp_path / "a.txt", query(2), 2_000.0)
    before = write(tmp_path / "b.txt", query(0), 1_000.0)
    found = run("doctor", after, before, "--json")
    assert found.returncode == 1
    assert {
        (row["name"], row["before"], row["after"]) for row in json.loads(found.stdout)["changes"]
    } == {("ecc_uncorrected", 0, 2), ("ecc_uncorrected_ever", 0, 2)}


def test_two_machines_are_not_compared(tmp_path: Path) -> None:
    one = write(tmp_path / "node1.txt", query(0, uuid="1111-1111"))
    other = write(tmp_path / "node2.txt", query(2, uuid="2222-2222"), 2_000.0)
    now, before = recorded_health([one, other])
    assert before is None
    (row,) = (row for row in now.readings if row.name == "ecc_uncorrected" and row.value)
    assert row.subject == "GPU 0000:3b:00.0 in node2.txt"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (DIAGNOSTIC, [("GPU 0", "dcgm_failed", f"GPU Memory: {HOT}")]),
        (DIAGNOSTIC.replace("Fail", "Skip"), []),
        (PENDING, [("GPU 3", "dcgm_failed", f"Deployment: {WAITS}")]),
        (HEALTH, [("GPU 3", "dcgm_failed", "Memory system: A double bit error was seen.")]),
        (HEALTH.replace("Failure", "Healthy").replace("A double bit error was seen.", ""), []),
    ],
)
def test_failed_tests_of_dcgm(tmp_path: Path, text: str, found: list[tuple[str, str, str]]) -> None:
    assert bad(write(tmp_path / "dcgm.txt", text)) == found


def test_links_without_a_query_are_called_by_the_number_of_their_gpu(tmp_path: Path) -> None:
    now, before = recorded_health(
        [
            write(tmp_path / "a.txt", LINKS.format(recoveries=0)),
            write(tmp_path / "b.txt", LINKS.format(recoveries=2), 2_000.0),
        ]
    )
    assert before is not None
    assert [row.value for row in before.readings if row.name == "nvlink_recoveries"] == [0]
    assert [
        (row.subject, row.value) for row in now.readings if row.name == "nvlink_recoveries"
    ] == [("GPU 0 NVLink 0", 2)]


@pytest.mark.parametrize("text", ["", "GPU 3 failed\n", "| a | b |\n", "<nvidia_smi_log"])
def test_another_text_is_refused(tmp_path: Path, text: str, prose: Prose) -> None:
    assert not is_health(text)
    with pytest.raises(EvidenceError) as refused:
        recorded_health([write(tmp_path / "x.txt", text)])
    prose(refused.value)


DF = """\
$ df -h
Filesystem            Size  Used Avail Use% Mounted on
tmpfs                  63G   12K   63G   1% /dev/shm
/dev/nvme0n1p1        3.5T  3.5T  9.8G 100% /data
fs-7.example.org:/ai/models/of/all/of/us
                      8.0T  8.0T     0 100% /mnt/check points
/dev/loop3             56M   56M     0 100% /snap/core18/2812
"""
DF_BLOCKS = """\
Filesystem     1K-blocks    Used Available Use% Mounted on
/dev/vda1        1000000  999998         2 100% /
/dev/vdb1        1000000       0   1000000   0% /scratch
"""
DF_INODES = """\
Filesystem      Inodes   IUsed IFree IUse% Mounted on
/dev/vda1      6553600 6553600     0  100% /
/dev/vdb1      6553600      11  6.3M    1% /scratch
"""


@pytest.mark.parametrize(
    ("text", "rows", "full"),
    [
        (DF, 3, [("file system /mnt/check points", "space_used_up")]),
        (DF_BLOCKS, 2, [("file system /", "space_used_up")]),
        (DF_INODES, 2, [("file system /", "inodes_used_up")]),
        (
            DF_BLOCKS + DF_INODES,
            4,
            [("file system /", f"{n}_used_up") for n in ("space", "inodes")],
        ),
    ],
)
def test_what_df_says_is_full(
    tmp_path: Path, text: str, rows: int, full: list[tuple[str, str]]
) -> None:
    file = tmp_path / "df.txt"
    file.write_text(text)
    now, _ = recorded_health([str(file)])
    assert len(now.readings) == rows
    assert [(one.subject, one.name) for one in now.readings if one.value] == full


def test_a_log_in_which_df_stands_is_a_log() -> None:
    assert is_health(DF)
    assert not is_health(f"step 4 loss 1.2\n{DF}")
    assert not is_health(f"{DF}step 4 loss 1.2\nRuntimeError: it broke\n")


@pytest.mark.parametrize("output", [query(0), nvidia_smi(), DIAGNOSTIC, HEALTH, LINKS])
def test_a_job_that_prints_such_an_output_first_has_a_log(tmp_path: Path, output: str) -> None:
    assert is_health(output)
    assert is_health(f"Mon Nov 23 02:00:00 2026\n{output}")
    job = write(tmp_path / "job.log", f"{output}\nstep 1 loss 4.1\nRuntimeError: it broke\n")
    assert not is_health(Path(job).read_text())
    found = run("triage", job, "--json")
    assert json.loads(found.stdout)["outcome"] == "failed"


def test_logs_reads_such_an_output_as_doctor_does(tmp_path: Path) -> None:
    file = write(tmp_path / "sinfo.txt", SINFO)
    document = json.loads(run("logs", file, "--json").stdout)
    assert document["kind"] == "doctor"


def test_xml_that_is_cut_is_a_problem(tmp_path: Path) -> None:
    now, _ = recorded_health([write(tmp_path / "x.xml", nvidia_smi()[:400])])
    assert now.readings == ()
    assert len(now.problems) == 1


def test_a_folder_with_such_files_is_told(tmp_path: Path) -> None:
    write(tmp_path / "before.txt", query(0))
    write(tmp_path / "after.txt", query(2), 2_000.0)
    found = run("triage", str(tmp_path), "--json")
    document = json.loads(found.stdout)
    assert {row["kind"] for row in document["evidence"]} == {"hardware"}
    assert "0000:3b:00.0" in document["verdict"]


SINFO = """\
Sat Oct  3 04:22:31 2026
NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON
n1             1      gpu*        idle 64     2:32:1 515000        0      1   (null) none
n2             1      gpu*       down* 64     2:32:1 515000        0      1   (null) Not responding
n3             1      gpu*    draining 64     2:32:1 515000        0      1   (null) ecc of gpu 3
"""
REASONS = """\
$ sinfo -R
REASON               USER      TIMESTAMP           NODELIST
Not responding       slurm     2026-10-03T04:15:01 n[2-3]
new power supply     root      2026-10-01T10:00:00 n9
"""
NODES = """\
NodeName=n2 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.00
   State=DOWN*+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Reason=fell off [slurm@2026-10-03T04:15:01]

NodeName=n4 Arch=x86_64 CoresPerSocket=32
   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
"""
CUBE = """\
NAME   STATUS                     ROLES    AGE   VERSION
n1     Ready                      <none>   91d   v1.30.2
n2     NotReady                   <none>   91d   v1.30.2
n3     Ready,SchedulingDisabled   <none>   91d   v1.30.2
"""
HOSTS = """\
HOST_NAME          STATUS       JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV
n1                 ok              -     64      0      0      0      0      0
n2                 unavail         -     64     64     64      0      0      0
"""
VNODES = """\
n1
     Mom = n1.example.org
     state = free

n2
     Mom = n2.example.org
     state = state-unknown,down
     comment = node down: communication closed
"""
FREE = """\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu*         up   infinite      4   idle n[1-4]
big          up   infinite      2  idle~ c[1-2]
"""


@pytest.mark.parametrize(
    ("text", "down", "drained"),
    [
        (SINFO, {"n2": "Not responding"}, {"n3": "ecc of gpu 3"}),
        (REASONS, {"n2": "Not responding", "n3": "Not responding"}, {"n9": "new power supply"}),
        (NODES, {"n2": "fell off"}, {}),
        (CUBE, {"n2": ""}, {"n3": ""}),
        (HOSTS, {"n2": ""}, {}),
        (VNODES, {"n2": "node down: communication closed"}, {}),
        (FREE, {}, {}),
    ],
)
def test_nodes_that_are_down_or_drained(
    tmp_path: Path, text: str, down: dict[str, str], drained: dict[str, str]
) -> None:
    file = tmp_path / "nodes.txt"
    file.write_text(text)
    now, _ = recorded_health([str(file)])
    for name, nodes in (("node_down", down), ("node_drained", drained)):
        rows = {one.subject: one.detail for one in now.readings if one.name == name and one.value}
        assert rows == {f"node {node}": why for node, why in nodes.items()}


@pytest.mark.parametrize(
    "text",
    [
        f"{SINFO}srun: job 71 queued and waiting for resources\n",
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "                71       gpu    train    lumen  R    1:02:03      1 n1\n",
        "train\n  state = failed\nstep 4 loss 1.2\n",
        "NAME    STATUS     AGE\ntrain   Complete   3h\n",
    ],
)
def test_what_is_no_list_of_nodes(text: str) -> None:
    assert not is_health(text)
