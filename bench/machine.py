"""What figures were measured on, in words for bench/results."""

import json
import os
import platform
from pathlib import Path

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
WORTH_NAMING = ("avx2", "avx512f", "avx512_fp16", "amx_tile", "asimd", "sve")


def tell(result: object, out: Path | None) -> None:
    """Print what was measured as JSON, and keep it in a file where that is asked for."""
    text = json.dumps(result, indent=2)
    print(text)
    if out is not None:
        out.write_text(text + "\n")


def machine() -> dict[str, str | int]:
    """Return what matters of this machine, without its name."""
    cpu: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        cpu.setdefault(name.strip(), value.strip())
    flags = (cpu.get("flags") or cpu.get("Features") or "").split()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu.get("model name", platform.machine()),
        "family": f"{cpu.get('cpu family', '?')}/{cpu.get('model', '?')}",
        "instructions": " ".join(word for word in WORTH_NAMING if word in flags),
        "caches": " ".join(f"L{level} {size}" for level, size in sorted(caches().items())),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": f"{memory / 2**30:.0f} GiB",
        "kernel": platform.release().partition("-")[0],
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
    }


def caches() -> dict[str, str]:
    """Return the size of each level of cache that holds data, as the system says it."""
    found = {}
    for index in CACHES.glob("index*"):
        if (index / "type").read_text().strip() != "Instruction":
            found[(index / "level").read_text().strip()] = (index / "size").read_text().strip()
    return found
