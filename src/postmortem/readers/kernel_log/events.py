"""One known line of a kernel log to an event: what the numbers in it mean."""

from collections.abc import Mapping

from postmortem.facts.kernel_log import Fault, KernelEvent, KernelKind
from postmortem.facts.signature import Signature
from postmortem.knowledge.xids import xid
from postmortem.patterns import Pattern
from postmortem.readers.kernel_log.stamps import Stamped
from postmortem.readers.siginfo import signal_name
from postmortem.records import replace
from postmortem.text import first_sentence

# NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus
XID = Signature(
    id="xid",
    family="xid",
    role="root",
    where=("kernel log",),
    cause="",
    next_steps=(),
    reference="",
    pattern=r"NVRM: Xid \((?P<gpu>[^)]*)\): (?P<number>\d{1,18}),? ?(?P<rest>.*)",
    event=KernelKind.GPU.value,
)
"""All Xids in one; what their numbers mean is in knowledge/xid.toml."""

_PID = Pattern(r"\bpid=\x27?(?P<pid>\d{1,10})\b")
_NAME = Pattern(r"\bname=\x27?(?P<name>[^,\x27<]{1,64})")
_AFTER = Pattern(r"(?:,? ?\b(?:pid|name)=(?:\x27[^\x27]*\x27|[^,]*),? ?)+")
_BEFORE = Pattern(r"\bcaused by previous Xid (?P<number>\d{1,6})$")
_MILD = Pattern(r" Nonfatal XC\d")
"""How bad an error of an NVLink (Xid 144 to 150) is stands behind the unit that met it."""
_SIGNALS = {
    "dmesg-segfault": "SIGSEGV",
    "dmesg-arm64-fault": "SIGSEGV",
    "dmesg-general-protection": "SIGSEGV",
    "dmesg-invalid-opcode": "SIGILL",
    "dmesg-divide-error": "SIGFPE",
    "dmesg-memory-failure": "SIGBUS",
}
_PAGE = 4096
_SHORT = 160


def event_of(
    signature: Signature, groups: Mapping[str, str], stamp: Stamped, file: str, line: int
) -> KernelEvent:
    """Return the event that a line tells of."""
    kind = KernelKind(signature.event or "note")
    words = first_sentence(signature.cause)
    event = KernelEvent(
        kind,
        signature.id,
        stamp.text.strip(),
        file,
        line,
        fault=Fault(signature.fault or "unknown"),
        words=words,
        brief=words,
        host=stamp.host,
        time=stamp.time,
        uptime=stamp.uptime,
        pid=_pid(groups.get("pid")),
        process=groups.get("name"),
        device=_device(groups),
    )
    if kind is KernelKind.CRASH or signature.id in _SIGNALS:
        return _crash(event, groups)
    if signature is XID:
        return _xid(event, groups)
    if kind is KernelKind.OOM_KILL:
        limit = _is_limit(signature.id, groups, event.text)
        return replace(event, words=_memory_words(signature.id, groups, limit=limit), limit=limit)
    if signature.id == "dmesg-nvswitch":
        what = groups["what"].strip()
        fault = _OF_SWITCH.get(what.partition(",")[0], Fault.AFTERMATH)
        return replace(event, fault=fault, words=f"SXid {groups['number']}: {what[:_SHORT]}")
    return event


_OF_SWITCH = {"Fatal": Fault.HARDWARE, "Non-fatal": Fault.UNKNOWN}
"""What follows these are numbers of the error above."""


def _pid(text: str | None) -> int | None:
    return int(text) if text and len(text) <= 10 and int(text) > 0 else None


def _device(groups: Mapping[str, str]) -> str | None:
    for name in ("gpu", "device", "disk", "volume", "server", "target", "port"):
        if groups.get(name):
            return groups[name].removeprefix("PCI:")
    return None


def _xid(event: KernelEvent, groups: Mapping[str, str]) -> KernelEvent:
    rest = groups.get("rest", "")
    before = _BEFORE.search(rest)  # of the same GPU: its own line may be cut off
    known = xid(min(int((before or groups)["number"][:6]), 999_999))
    process = _NAME.search(rest)
    pid = _PID.search(rest)
    said = _AFTER.sub("", rest).strip(" ,.") or known.name
    number = f"Xid {known.number}"
    name = f"{number} ({known.name})"
    return replace(
        event,
        number=known.number,
        fault=Fault.UNKNOWN if _MILD.search(rest) else known.fault,
        pid=_pid(pid["pid"]) if pid else None,
        process=process["name"].strip() if process else None,
        words=f"{number if said.startswith(known.name) else name}: {said[:_SHORT]}",
        brief=name,
    )


def _is_limit(signature: str, groups: Mapping[str, str], text: str) -> bool:
    return signature != "dmesg-oomd" and (
        "Memory cgroup" in text or groups.get("constraint") == "MEMCG"
    )


def _memory_words(signature: str, groups: Mapping[str, str], *, limit: bool) -> str:
    who = groups.get("name", "")
    if signature == "dmesg-oomd":
        return f"systemd-oomd killed {groups.get('cgroup', 'a unit')}"
    size = groups.get("rss_kb", "")
    held = f" holding {int(size) / (1 << 20):.1f} GiB" if size and len(size) < 15 else ""
    why = ""
    if limit:
        why = "over its memory limit"
    elif signature == "dmesg-oom-host" or groups.get("constraint") == "NONE":
        why = "the whole host was out of memory"
    elif groups.get("constraint"):
        why = f"memory of one NUMA node was short ({groups['constraint']})"
    return f"the kernel killed {who}{held}" + (f": {why}" if why else " for memory")


def _crash(event: KernelEvent, groups: Mapping[str, str]) -> KernelEvent:
    number = groups.get("signal", "")
    name = _SIGNALS.get(event.signature)
    if number.isdecimal() and 0 < int(number[:3]) < 100:
        name = signal_name(int(number))
    place = _place(groups)
    brief, reason = event.words, ""
    if event.signature == "dmesg-segfault":
        brief, reason = _page_fault(groups)
    elif event.signature == "dmesg-arm64-fault":
        at = f" at {groups['address']}" if groups.get("address") else ""
        brief = f"{groups.get('what', 'fault')}{at}"
    return replace(
        event,
        signal=name,
        place=place,
        words=f"{brief}{reason} in {place}" if place else f"{brief}{reason}",
        brief=brief,
        process=(event.process or "").removeprefix("traps: ") or None,
    )


def _page_fault(groups: Mapping[str, str]) -> tuple[str, str]:
    """Return what the error code of x86 says was done, and why that may not be.

    The codes are those of arch/x86/include/asm/trap_pf.h.
    """
    address = int(groups["address"][-16:], 16)
    error = int(groups.get("error", "0")[-8:] or "0", 16)
    if " nip " in groups.get("text", ""):
        return f"touched {address:#x}", ""
    if error & 16:
        did, where = "jumped to", "executable" if error & 1 else "mapped"
    elif error & 2:
        did, where = "wrote to", "writable" if error & 1 else "mapped"
    else:
        did, where = "read from", "readable" if error & 1 else "mapped"
    null = " (a null pointer)" if address < _PAGE else ""
    key = " (a protection key forbids it)" if error & 32 else ""
    stack = " (the shadow stack)" if error & 64 else ""
    return f"{did} {address:#x}{null}", f", which is not {where}{key}{stack}"


def _place(groups: Mapping[str, str]) -> str | None:
    """Return ``module+0xOFFSET``; the offset stands first in the brackets since Linux 6.4."""
    module, place = groups.get("module"), groups.get("place", "")
    if not module:
        return None
    first, comma, _ = place.partition(",")
    if comma:
        return f"{module}+{int(first[-16:] or '0', 16):#x}"
    base, ip = first.partition("+")[0], groups.get("ip", "")
    if not base or not ip:
        return module
    offset = int(ip[-16:], 16) - int(base[-16:], 16)
    return f"{module}+{offset:#x}" if offset >= 0 else module
