"""What NVIDIA's driver counts, by nvidia-smi: the form is that of its DTD and manual page.

Not yet held against a GPU: written after documents alone.
"""

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree as Xml

from postmortem.facts.health import Reading
from postmortem.facts.source import Problem
from postmortem.patterns import Pattern
from postmortem.readers.health.programs import output_of

_MOST_GPUS = 64
_STATES = {"yes": 1, "active": 1, "no": 0, "not active": 0, "none": 0}
_LOST = Pattern(r"handle for GPU.*?\b([0-9A-Fa-f]{4,8}(?::[0-9A-Fa-f]{2}){2}\.\d)")
_HEAT = ("hw_thermal_slowdown", "sw_thermal_slowdown")
_POWER = ("hw_power_brake_slowdown",)


def nvidia_readings(problems: list[Problem]) -> Iterator[Reading]:
    """Yield what nvidia-smi says of all GPUs; a driver in trouble may not answer in time."""
    said = output_of(["nvidia-smi", "-q", "-x"], problems)
    if said is None:
        return
    try:
        gpus = Xml.fromstring(said).findall("gpu")[:_MOST_GPUS]
    except Xml.ParseError:
        lost = [line.strip() for line in said.splitlines() if "Unable to" in line]
        problems.append(Problem("nvidia-smi -q -x", (lost or ["is not XML"])[0][:200]))
        lost_at = _LOST.search(said)
        if lost_at:
            yield Reading(_subject(lost_at[1]), "gpu_missing", 1, "nvidia-smi -L")
        return
    yield from readings_of_gpus(gpus)
    subjects = [_subject(gpu.get("id", "")) for gpu in gpus]
    for options, read in (("-e", nvlink_errors), ("-s", nvlink_states)):
        links = output_of(["nvidia-smi", "nvlink", options], problems) if gpus else None
        if links is not None:
            yield from read(links, subjects)


def readings_of_gpus(gpus: Iterable[Xml.Element]) -> Iterator[Reading]:
    """Yield what stands in elements of ``nvidia-smi -q -x``."""
    for gpu in gpus:
        subject = _subject(gpu.get("id", ""))
        yield Reading(subject, "gpu_missing", 0, "nvidia-smi -L")
        yield from _of_gpu(gpu, subject)


def _subject(bus: str) -> str:
    """Return ``GPU 0000:3b:00.0``, as sysfs writes it, for ``00000000:3B:00.0``."""
    return f"GPU {bus[-12:].lower()}"


def _of_gpu(gpu: Xml.Element, subject: str) -> Iterator[Reading]:
    remap, pages = "remapped_rows/remapped_row_", "retired_pages/"
    slow = [f"{kind}/{kind[:-1]}_" for kind in ("clocks_event_reasons", "clocks_throttle_reasons")]
    action = (gpu.findtext("gpu_recovery_action") or "N/A").strip()
    values = {
        "ecc_uncorrected": _errors(gpu, "volatile", corrected=False),
        "ecc_uncorrected_ever": _errors(gpu, "aggregate", corrected=False),
        "ecc_corrected": _errors(gpu, "aggregate", corrected=True),
        "ecc_sram_worn": _first(gpu, "ecc_errors/aggregate/sram_threshold_exceeded"),
        "rows_remapped": _first(gpu, f"{remap}unc", f"{pages}double_bit_retirement/retired_count"),
        "remap_pending": _first(gpu, f"{remap}pending", f"{pages}pending_retirement"),
        "remap_failed": _first(gpu, f"{remap}failure"),
        "recovery_wanted": None if action == "N/A" else int(action != "None"),
        "gpu_slowed_heat": _any(gpu, [one + name for one in slow for name in _HEAT]),
        "gpu_slowed_power": _any(gpu, [one + name for one in slow for name in _POWER]),
        "gpu_replays": _first(gpu, "pci/replay_counter"),
    }
    detail = {"recovery_wanted": action} if action != "None" else {}
    command = f"nvidia-smi -q -i {subject.removeprefix('GPU ')}"
    for name, value in values.items():
        if value is not None:
            yield Reading(subject, name, value, command, detail.get(name, "")[:80])


def _errors(gpu: Xml.Element, since: str, *, corrected: bool) -> int | None:
    """Return the sum of what one table of errors counts; its rows differ with the generation."""
    old = "single_bit" if corrected else "double_bit"
    paths = [f"ecc_errors/{since}/{old}/total"]
    table = gpu.find(f"ecc_errors/{since}")
    for row in table if table is not None else ():
        wrong = "uncorrectable" in row.tag
        if ("correctable" in row.tag) and wrong is not corrected:
            paths.append(f"ecc_errors/{since}/{row.tag}")
    known = [value for path in paths if (value := _value(gpu, path)) is not None]
    return sum(known) if known else None


def _any(gpu: Xml.Element, paths: list[str]) -> int | None:
    known = [value for path in paths if (value := _value(gpu, path)) is not None]
    return max(known, default=None)


def _first(gpu: Xml.Element, *paths: str) -> int | None:
    return next((value for path in paths if (value := _value(gpu, path)) is not None), None)


def _value(gpu: Xml.Element, path: str) -> int | None:
    text = (gpu.findtext(path) or "").strip().lower()
    if text.isdecimal() and len(text) < 19:
        return int(text)
    return _STATES.get(text)


def nvlink_errors(text: str, subjects: list[str] | None = None) -> Iterator[Reading]:
    """Yield the sums for each link out of ``nvidia-smi nvlink -e``."""
    sums: dict[tuple[str, str], int] = {}
    for subject, said in _links(text, subjects):
        found = re.match(r"(?P<kind>[A-Za-z ]+Errors?)(?: Count)?: *(?P<count>\d{1,18})\b", said)
        if found:
            again = found["kind"].startswith("Recovery")
            key = (subject, "nvlink_recoveries" if again else "nvlink_errors")
            sums[key] = sums.get(key, 0) + int(found["count"])
    for (subject, name), count in sums.items():
        yield Reading(subject, name, count, "nvidia-smi nvlink -e")


def nvlink_states(text: str, subjects: list[str] | None = None) -> Iterator[Reading]:
    """Yield which links are down out of ``nvidia-smi nvlink -s``."""
    for subject, said in _links(text, subjects):
        yield Reading(subject, "nvlink_inactive", int("inactive" in said), "nvidia-smi nvlink -s")


def _links(text: str, subjects: list[str] | None) -> Iterator[tuple[str, str]]:
    """Yield each link and what is said of it; without `subjects` a GPU is called by its number."""
    gpu = None
    for line in text.splitlines():
        head = re.match(r"GPU (\d{1,3}):", line)
        if head:
            number = int(head[1])
            gpu = f"GPU {number}"
            if subjects is not None:
                gpu = subjects[number] if number < len(subjects) else None
        row = re.match(r"\s+Link (\d{1,3}): (.*)", line)
        if row and gpu:
            yield f"{gpu} NVLink {row[1]}", row[2]
