"""Counters of hosts and GPUs out of recorded trees and of what vendors' tools print."""

from pathlib import Path

import pytest

from builders.commands import script
from builders.hosts import GPU, NVLINKS, nvidia_smi, tree
from postmortem.facts.health import Reading
from postmortem.facts.source import Problem
from postmortem.readers.health import read_health
from postmortem.readers.health.nvidia import nvidia_readings
from postmortem.readers.health.programs import chrony_readings, readings_of_events, smart_readings
from postmortem.readers.kernel_log.read import read_events


def values(rows: tuple[Reading, ...] | list[Reading]) -> dict[tuple[str, str], int]:
    return {(row.subject, row.name): row.value for row in rows}


def test_a_server_without_trouble(tmp_path: Path) -> None:
    found = read_health(host=True, gpu=True, root=tree(tmp_path))
    assert found.boot == "11111111-2222-3333-4444-555555555555"
    assert found.problems == ()
    assert values(list(found.readings)) == {
        ("memory controller mc0", "memory_uncorrected"): 0,
        ("memory controller mc0", "memory_corrected"): 12,
        ("memory", "memory_poisoned"): 0,
        ("processors", "machine_checks"): 0,
        ("processors", "cpu_throttled"): 5,
        ("disk sda", "disk_errors"): 2,
        ("disk md0", "disk_degraded"): 0,
        ("disk nvme0", "disk_not_live"): 0,
        ("file system /", "filesystem_read_only"): 0,
        ("file system /data", "filesystem_read_only"): 0,
        ("file system /snap", "filesystem_read_only"): 0,
        ("file system sda1", "filesystem_errors"): 0,
        ("port mlx5_0/1", "fabric_port_down"): 0,
        ("port mlx5_0/1", "fabric_link_downed"): 0,
        ("port mlx5_0/1", "fabric_errors"): 1,
        (f"GPU {GPU}", "pcie_gone"): 0,
        (f"GPU {GPU}", "pcie_fatal"): 0,
        (f"GPU {GPU}", "pcie_corrected"): 3,
        (f"GPU {GPU}", "pcie_lanes_lost"): 0,
    }


@pytest.mark.parametrize(
    ("file", "text", "subject", "name", "value"),
    [
        ("ue_count", "3", "memory controller mc0", "memory_uncorrected", 3),
        ("meminfo", "HardwareCorrupted:  8 kB\n", "memory", "memory_poisoned", 8),
        ("interrupts", " MCE:   1   2   Machine", "processors", "machine_checks", 3),
        ("current_link_width", "8", f"GPU {GPU}", "pcie_lanes_lost", 8),
        ("config", "\xff\xff\xff\xff", f"GPU {GPU}", "pcie_gone", 1),
        ("state", "dead", "disk nvme0", "disk_not_live", 1),
        ("state", "1: DOWN", "port mlx5_0/1", "fabric_port_down", 1),
        (
            "mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 ro,errors=remount-ro\n",
            "file system /",
            "filesystem_read_only",
            1,
        ),
    ],
)
def test_each_fault_is_a_number(
    tmp_path: Path, file: str, text: str, subject: str, name: str, value: int
) -> None:
    found = read_health(host=True, gpu=True, root=tree(tmp_path, **{file: text}))
    assert values(list(found.readings))[subject, name] == value


def test_a_narrow_slot_is_no_fault_of_the_device(tmp_path: Path) -> None:
    root = tree(tmp_path, current_link_width="8")
    (root / "sys/devices/pci0000:3a/0000:3a:00.0/max_link_width").write_text("8")
    found = read_health(host=False, gpu=True, root=root)
    assert values(list(found.readings))[f"GPU {GPU}", "pcie_lanes_lost"] == 0


@pytest.mark.parametrize("junk", ["", "-1", "9" * 400, "x\0y", "\xff" * 64])
def test_rubbish_in_a_tree_is_no_reading(tmp_path: Path, junk: str) -> None:
    names = ("ue_count", "ce_count", "ioerr_cnt", "max_link_width", "class", "aer_dev_fatal")
    root = tree(tmp_path, mountinfo=junk, meminfo=junk, **dict.fromkeys(names, junk))
    found = values(list(read_health(host=True, gpu=True, root=root).readings))
    assert not {"memory_uncorrected", "memory_corrected", "disk_errors"} & {n for _, n in found}


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    found = read_health(host=True, gpu=True, root=tmp_path)
    assert found.readings == ()
    assert [one.where for one in found.problems] == ["/sys/devices/system/edac"]


def asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> tuple[list[Reading], list[Problem]]:
    """Read what a program of that name prints, as it lies first on PATH."""
    (folder / "said").write_text(text)
    (folder / "links").write_text(NVLINKS)
    lines = f"""case "$*" in
      "-q -x") cat {folder}/said;;
      "nvlink -e") cat {folder}/links;;
      "nvlink -s") printf 'GPU 0: A GPU\\n\\t Link 0: <inactive>\\n\\t Link 1: 25 GB/s\\n';;
    esac
    """
    script(folder / "nvidia-smi", lines)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    problems: list[Problem] = []
    return list(nvidia_readings(problems)), problems


def test_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = nvidia_smi(uncorrected=3, pending="Yes", hot="Active", action="Drain and Reset")
    rows, problems = asked(tmp_path, monkeypatch, text)
    gpu = f"GPU {GPU}"
    assert problems == []
    assert values(rows) == {
        (gpu, "gpu_missing"): 0,
        (gpu, "ecc_uncorrected"): 3,
        (gpu, "ecc_uncorrected_ever"): 3,
        (gpu, "ecc_corrected"): 7,
        (gpu, "ecc_sram_worn"): 0,
        (gpu, "rows_remapped"): 0,
        (gpu, "remap_pending"): 1,
        (gpu, "remap_failed"): 0,
        (gpu, "recovery_wanted"): 1,
        (gpu, "gpu_slowed_heat"): 1,
        (gpu, "gpu_slowed_power"): 0,
        (gpu, "gpu_replays"): 0,
        (f"{gpu} NVLink 0", "nvlink_errors"): 6,
        (f"{gpu} NVLink 0", "nvlink_recoveries"): 1,
        (f"{gpu} NVLink 1", "nvlink_errors"): 0,
        (f"{gpu} NVLink 0", "nvlink_inactive"): 1,
        (f"{gpu} NVLink 1", "nvlink_inactive"): 0,
    }


def test_a_gpu_without_ecc_has_no_counts_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = asked(tmp_path, monkeypatch, nvidia_smi(uncorrected="N/A", action="N/A"))
    assert values(rows)[f"GPU {GPU}", "ecc_uncorrected"] == 0  # of SRAM, which it does count
    assert (f"GPU {GPU}", "recovery_wanted") not in values(rows)


def test_a_gpu_that_the_driver_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n"
    rows, problems = asked(tmp_path, monkeypatch, text)
    assert values(rows) == {(f"GPU {GPU}", "gpu_missing"): 1}
    assert "GPU is lost" in problems[0].what


@pytest.mark.parametrize("text", ["", "<nvidia_smi_log><gpu>", "No devices were found\n"])
def test_an_nvidia_smi_that_says_nothing_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    rows, problems = asked(tmp_path, monkeypatch, text)
    assert rows == []
    assert [one.where for one in problems] == ["nvidia-smi -q -x"]


def test_disks_by_smartctl() -> None:
    nvme = """{"smart_status": {"passed": false},
        "nvme_smart_health_information_log": {"media_errors": 4, "percentage_used": 101}}"""
    assert values(smart_readings(nvme, "nvme0n1")) == {
        ("disk nvme0n1", "disk_failing"): 1,
        ("disk nvme0n1", "disk_media_errors"): 4,
        ("disk nvme0n1", "disk_worn"): 101,
    }
    ata = """{"smart_status": {"passed": true}, "ata_smart_attributes": {"table": [
        {"id": 197, "raw": {"value": 8}}]}}"""
    assert values(smart_readings(ata, "sda")) == {
        ("disk sda", "disk_failing"): 0,
        ("disk sda", "disk_media_errors"): 8,
    }
    for junk in ("", "[]", '{"ata_smart_attributes": 1}', '{"smart_status": []}', "[" * 9999):
        assert smart_readings(junk, "sda") == ()


def test_the_clock_by_chrony() -> None:
    line = (
        "C0A80101,ntp.example,3,1795399167.1,-0.250000100,0.1,0.1,1.0,0.1,0.1,0.1,0.1,64.0,Normal"
    )
    assert values(chrony_readings(line)) == {("clock", "clock_offset"): 250000}
    for junk in ("", "506 Cannot talk to daemon", "a,b,c,d,nan", "a,b,c,d,inf"):
        assert chrony_readings(junk) == ()


def test_the_kernel_log_by_device_and_kind() -> None:
    text = (
        b"[ 1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        b"[ 2.0] NVRM: Xid (PCI:0000:5e:00): 31, pid=2, name=python, MMU Fault\n"
        b"[ 3.0] I/O error, dev sda, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2\n"
        b"[ 4.0] I/O error, dev sda, sector 16 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2\n"
    )
    assert values(readings_of_events(read_events(text, "dmesg"))) == {
        ("GPU 0000:3b:00", "log_gpu_hardware"): 1,
        ("GPU 0000:5e:00", "log_gpu_program"): 1,
        ("host sda", "log_disk"): 2,
    }
