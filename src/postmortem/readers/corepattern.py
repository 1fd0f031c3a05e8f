"""Where the kernel puts cores now: /proc/sys/kernel/core_pattern in words and as file names.

Source: core(5), Documentation/admin-guide/sysctl/kernel.rst, fs/coredump.c (format_corename).
"""

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from postmortem.facts.machine import CoreDestination, CorePattern
from postmortem.patterns import Pattern

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")

Handler = Literal[
    "file", "systemd", "apport", "abrt", "wsl", "postmortem", "pipe", "socket", "none"
]

_SPECIFIER = Pattern(r"%(.)")
_PROGRAMS: tuple[tuple[str, Handler], ...] = (
    ("systemd-coredump", "systemd"),
    ("apport", "apport"),
    ("abrt-hook-ccpp", "abrt"),
    ("wsl-capture-crash", "wsl"),
    ("postmortem", "postmortem"),
)
_OURS = "postmortem, which keeps slim cores and their verdicts (postmortem install-handler)"
_CONTAINER_MARKS = (
    ("/.dockerenv", "docker"),
    ("/run/.containerenv", "podman"),
    ("/var/run/secrets/kubernetes.io", "kubernetes"),
)
_CONTAINER_GROUPS = Pattern(r"kubepods|docker|containerd|libpod|lxc|garden|slurm.*container")


def read_core_pattern(proc: Path = Path("/proc")) -> CorePattern:
    """Return the pattern of this kernel; text None where /proc does not show it."""
    try:
        text = (proc / "sys/kernel/core_pattern").read_text().rstrip("\n")
    except OSError:
        return CorePattern(None)
    try:
        uses_pid = (proc / "sys/kernel/core_uses_pid").read_text().strip() not in ("", "0")
    except OSError:
        uses_pid = False
    return CorePattern(text, uses_pid)


def container_kind(root: Path = Path("/")) -> str | None:
    """Return which kind of container this seems to be, None on a host (or when hidden)."""
    for mark, kind in _CONTAINER_MARKS:
        if (root / mark.lstrip("/")).exists():
            return kind
    for name in ("proc/1/cgroup", "proc/self/cgroup"):
        try:
            found = _CONTAINER_GROUPS.search((root / name).read_text())
        except OSError:
            continue
        if found:
            return "kubernetes" if found[0] == "kubepods" else "container"
    # Singularity and Apptainer keep the host's cgroup; both leave this folder in the image
    return "apptainer" if (root / ".singularity.d").is_dir() else None


def destination(pattern: CorePattern, *, container: str | None = None) -> CoreDestination:
    """Return who takes the core of a process that crashes now, in words."""
    text = pattern.text
    if text is None:
        return CoreDestination("none", "unknown: /proc/sys/kernel/core_pattern cannot be read")
    if text.startswith("|"):
        return _piped(text, container)
    if text.startswith("@"):
        if "postmortem" in text:
            return CoreDestination("postmortem", _OURS, text.lstrip("@"), reachable=True)
        words = f"a program that listens on the socket {text.lstrip('@')}"
        return CoreDestination("socket", words, program=text.lstrip("@"), reachable=False)
    if not text and not pattern.uses_pid:
        return CoreDestination("none", "nowhere: core_pattern is empty", reachable=False)
    name = text + (".%p" if pattern.uses_pid and not _has_pid(text) else "")
    place = "" if name.startswith("/") else " in the working directory of the process"
    return CoreDestination("file", f"a file named {name}{place}", reachable=True)


def _piped(text: str, container: str | None) -> CoreDestination:
    program = text[1:].split()[0] if text[1:].split() else ""
    kind: Handler = next((kind for mark, kind in _PROGRAMS if mark in program), "pipe")
    places = {
        "systemd": "systemd-coredump, which stores them under /var/lib/systemd/coredump",
        "apport": "apport, which stores them under /var/lib/apport/coredump and /var/crash",
        "abrt": "ABRT, which stores them under /var/spool/abrt",
        "postmortem": _OURS,
        "wsl": "WSL, which stores them on the Windows side (%LOCALAPPDATA%\\Temp\\wsl-crashes)",
    }
    words = places.get(kind, f"the program {program}")
    if container:
        words += f"; that runs on the host, outside this container ({container})"
    reachable = container is None and kind in ("systemd", "apport", "abrt", "postmortem")
    return CoreDestination(kind, words, program=program, reachable=reachable)


def _has_pid(text: str) -> bool:
    """Only %p stops core_uses_pid from adding the pid; %P does not (format_corename)."""
    return "p" in _SPECIFIER.findall(text)


def file_glob(pattern: CorePattern, cwd: Path, known: Mapping[str, str]) -> str:
    """Return the glob of the files that a pattern names, made absolute.

    `known` has the values of specifiers by letter (``{"p": "4711"}``); the others become ``*``.
    """
    text = pattern.text or ""
    if pattern.uses_pid and not _has_pid(text):
        text += ".%p"
    out: list[str] = []
    position = 0
    for match in _SPECIFIER.finditer(text):
        out.append(glob.escape(text[position : match.start()]))
        letter = match[1]
        if letter == "%":
            out.append("%")
        else:
            # the kernel writes names with "!" for "/" (cn_esc_printf)
            out.append(glob.escape(known[letter].replace("/", "!")) if letter in known else "*")
        position = match.end()
    out.append(glob.escape(text[position:].removesuffix("%")))
    name = "".join(out)
    return name if name.startswith("/") else f"{glob.escape(str(cwd))}/{name}"
