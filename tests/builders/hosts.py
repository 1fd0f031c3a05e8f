"""Trees of /sys and /proc as other machines have them, and what nvidia-smi says there."""

from pathlib import Path

GPU = "0000:3b:00.0"
_SLOT = "sys/devices/pci0000:3a/0000:3a:00.0"

SERVER = {
    "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555",
    "proc/meminfo": "MemTotal:  64 kB\nHardwareCorrupted:     0 kB\n",
    "proc/interrupts": "            CPU0       CPU1\n MCE:          0          0   Machine check\n",
    "proc/self/mountinfo": (
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
        "30 22 8:17 / /data rw - xfs /dev/sdb1 rw,attr2\n"
        "31 22 7:0 / /snap ro - ext4 /dev/loop0 ro\n"
        "32 22 0:30 / /proc rw - proc proc ro\n"
    ),
    "sys/devices/system/edac/mc/mc0/ue_count": "0",
    "sys/devices/system/edac/mc/mc0/ce_count": "12",
    "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "5",
    "sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count": "5",
    f"{_SLOT}/max_link_width": "16",
    f"{_SLOT}/{GPU}/class": "0x030200",
    f"{_SLOT}/{GPU}/max_link_width": "16",
    f"{_SLOT}/{GPU}/current_link_width": "16",
    f"{_SLOT}/{GPU}/aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0\n",
    f"{_SLOT}/{GPU}/aer_dev_correctable": "RxErr 3\nTOTAL_ERR_COR 3\n",
    f"{_SLOT}/{GPU}/config": "\x02\x10\x20\x23",
    "sys/block/sda/device/ioerr_cnt": "0x2",
    "sys/block/md0/md/degraded": "0",
    "sys/class/nvme/nvme0/state": "live",
    "sys/fs/ext4/sda1/errors_count": "0",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
    "sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "0",
    "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": "1",
}
"""A server without trouble."""

NVLINKS = """\
GPU 0: A GPU (UUID: GPU-0)
\t Link 0: Replay Errors: 4
\t Link 0: Recovery Errors: 1
\t Link 0: CRC Flit Errors: 2
\t Link 1: Replay Errors: 0
"""


def tree(root: Path, **changed: str) -> Path:
    """Write the server's files below a folder; `changed` are texts by the path's last part."""
    for path, text in SERVER.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(changed.get(file.name, text).encode("latin-1"))
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    if not (devices / GPU).exists():
        (devices / GPU).symlink_to(root / _SLOT / GPU)
    return root


def nvidia_smi(
    *,
    gpus: tuple[str, ...] = ("00000000:3B:00.0",),
    uncorrected: int | str = 0,
    pending: str = "No",
    hot: str = "Not Active",
    action: str = "None",
) -> str:
    """Return what ``nvidia-smi -q -x`` prints, with the elements that we read."""
    one = f"""<ecc_errors>
      <volatile><sram_correctable>0</sram_correctable>
        <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
        <dram_correctable>1</dram_correctable>
        <dram_uncorrectable>{uncorrected}</dram_uncorrectable></volatile>
      <aggregate><sram_correctable>2</sram_correctable><dram_correctable>5</dram_correctable>
        <dram_uncorrectable>{uncorrected}</dram_uncorrectable>
        <sram_threshold_exceeded>No</sram_threshold_exceeded></aggregate></ecc_errors>
    <retired_pages><double_bit_retirement><retired_count>N/A</retired_count>
      </double_bit_retirement><pending_retirement>N/A</pending_retirement></retired_pages>
    <remapped_rows><remapped_row_unc>0</remapped_row_unc>
      <remapped_row_pending>{pending}</remapped_row_pending>
      <remapped_row_failure>No</remapped_row_failure></remapped_rows>
    <gpu_recovery_action>{action}</gpu_recovery_action>
    <pci><replay_counter>0</replay_counter></pci>
    <clocks_event_reasons>
      <clocks_event_reason_hw_thermal_slowdown>{hot}</clocks_event_reason_hw_thermal_slowdown>
      <clocks_event_reason_hw_power_brake_slowdown>
        Not Active
      </clocks_event_reason_hw_power_brake_slowdown>
    </clocks_event_reasons>"""
    inside = "".join(f'<gpu id="{bus}">{one}</gpu>' for bus in gpus)
    return f'<?xml version="1.0" ?><nvidia_smi_log>{inside}</nvidia_smi_log>'
