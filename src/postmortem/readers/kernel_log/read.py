"""Kernel logs to `KernelLog`: known lines found by the engine, taken apart, put together."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from postmortem.facts.kernel_log import MOST_COUNTED, Fault, KernelEvent, KernelKind, KernelLog
from postmortem.facts.rank_logs import Remark
from postmortem.facts.signature import Hit, Signature
from postmortem.facts.source import Problem, Source
from postmortem.patterns import Pattern
from postmortem.readers.kernel_log.events import XID, event_of
from postmortem.readers.kernel_log.lines import is_json, json_lines, read_text, refused
from postmortem.readers.kernel_log.stamps import Stamped, stamped
from postmortem.readers.signatures import Signatures
from postmortem.records import replace

_MOST_EVENTS = 20_000
_STACK_LINES = 80
_TABLE_LINES = 8000
_NEAR = 60.0
"""Seconds between lines that tell of one OOM kill."""
_FRAME = Pattern(r"^ *(?:\? )?(?P<name>[A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+")
_UNSURE = Pattern(r"^ *\? ")
_TASK = Pattern(r"^\[ *(?P<pid>\d{1,18})\] +\d+ +\d+ +\d+ +\d+ ")
_SILENT, _BACK, _BOOT = "dmesg-nfs-silent", "dmesg-nfs-back", "dmesg-boot"
_HUNG, _WAITS = "dmesg-hung-task", "dmesg-task-waits"
_AROUND, _DAY = 1024, 86_400.0
_OF_KERNEL = ("kernel", "systemd-oomd", None)


def read_kernel_logs(
    paths: Iterable[str], sources: list[Source], problems: list[Problem]
) -> KernelLog:
    """Return the faults that kernel logs tell of."""
    events: list[KernelEvent] = []
    files: list[str] = []
    lines = 0
    for path in paths:
        data = read_text(path, sources, problems)
        if data is None:
            continue
        files.append(path)
        why = refused(data[:400].decode("utf-8", "replace"))
        if why is not None:
            remedy = "sudo dmesg -T, or journalctl -k, as a user who may"
            problems.append(Problem(path, f"holds no kernel log: {why}", remedy))
            continue
        lines += data.count(b"\n")
        events += read_events(data, path)
    return KernelLog(tuple(events), tuple(files), lines)


def read_events(data: bytes, path: str) -> list[KernelEvent]:
    """Return the events of one log, in the order of its lines."""
    if is_json(data):
        entries = list(json_lines(data))
        text = "\n".join(one.text.replace("\n", " ") for _, one in entries)
        found = _found(text.encode("utf-8", "replace"), path, entries)
    else:
        found = _found(data, path, None)
    return list(_merged(found))


def events_of_remarks(
    remarks: Iterable[Remark], host_of: dict[int, str | None]
) -> list[KernelEvent]:
    """Return the events of lines of the kernel that stand between those of programs.

    Job scripts print ``dmesg | tail``, and slurmstepd what it was told.
    """
    made: list[KernelEvent] = []
    for remark in remarks:
        for one in _found(remark.text.encode("utf-8", "replace"), remark.file, None):
            host = one.host or host_of.get(remark.writer)
            made.append(replace(one, line=remark.line, host=host))
    return list(_merged(made))


@lru_cache(maxsize=1)
def _known() -> tuple[Signature, ...]:
    from postmortem.knowledge.messages import signatures

    return (*(s for s in signatures() if s.event is not None), XID)


@lru_cache(maxsize=1)
def _engine() -> Signatures:
    return Signatures(_known())


def _found(data: bytes, path: str, entries: list[tuple[int, Stamped]] | None) -> list[KernelEvent]:
    known = _known()
    events: list[KernelEvent] = []
    for hit in _engine().tally(data, each=MOST_COUNTED).hits[:_MOST_EVENTS]:
        if entries is None:
            line, stamp = hit.line_number, stamped(hit.text)
        else:
            line, stamp = entries[hit.line_number - 1]
        if stamp.tag not in _OF_KERNEL:
            continue  # another program quotes the kernel
        if known[hit.index].id == _BOOT and not _restarted(data, hit.offset, stamp):
            continue
        event = event_of(known[hit.index], hit.groups, stamp, path, line)
        events.append(_with_lines_around(event, hit, data))
    return events


def _with_lines_around(event: KernelEvent, hit: Hit, data: bytes) -> KernelEvent:
    if event.signature == "dmesg-oom-constraint":
        return replace(event, beside=frozenset(_table(data, hit.offset)))
    if event.kind is KernelKind.BLOCKED:
        return replace(event, stack=tuple(_stack(data, hit.offset)))
    return event


def _restarted(data: bytes, at: int, boot: Stamped) -> bool:
    """Return whether a kernel had been up above where it begins anew, and no day follows."""
    near = (data[max(0, at - _AROUND) : at].rpartition(b"\n")[0], data[-_AROUND:])
    above, end = ([*map(stamped, rows.decode("utf-8", "replace").split("\n"))] for rows in near)
    clocks = [row.uptime or (row.time or 0) - (boot.time or 0) for row in end if row.known]
    return any(row.known and row.uptime != 0 for row in above) and clocks[-1:] < [_DAY]


def _table(data: bytes, at: int) -> Iterator[int]:
    """Yield the pids of the table of tasks that ends before a place."""
    end = data.rfind(b"\n", 0, at)
    begin = max(0, end - _TABLE_LINES * 120)
    rows = data[begin : max(end, 0)].decode("utf-8", "replace").split("\n")
    for row in reversed(rows):
        text = stamped(row).text
        found = _TASK.match(text)
        if found:
            yield int(found["pid"][:10])
        elif "uid" in text and "tgid" in text:
            return


def _stack(data: bytes, at: int) -> Iterator[str]:
    """Yield the functions of the trace that follows a line; without those that are guessed."""
    begin = data.find(b"\n", at) + 1
    if not begin:
        return
    rows = data[begin : begin + _STACK_LINES * 160].decode("utf-8", "replace").split("\n")
    seen = False
    for row in rows[:_STACK_LINES]:
        text = stamped(row).text
        found = _FRAME.match(text)
        if found:
            seen = True
            if not _UNSURE.match(text):
                yield found["name"][:80]
        elif (seen and "TASK>" not in text) or "blocked for more than" in text:
            return


def _merged(events: Iterable[KernelEvent]) -> Iterator[KernelEvent]:
    """Yield what is told in several lines once, where it stands first; not what was taken back."""
    kept: dict[object, KernelEvent] = {}
    for event in events:
        if event.signature == _BACK:
            kept.pop((event.file, event.host, _SILENT, None, event.device, None), None)
            continue
        of_task = event.pid, event.device, event.number
        if event.signature == _WAITS and (event.file, event.host, _HUNG, *of_task) in kept:
            continue  # the stack of one that is told above it
        key: object = (event.file, event.host, event.signature, *of_task)
        if event.kind is KernelKind.OOM_KILL and event.pid is not None:
            key = ("oom", event.file, event.host, event.pid)
        old = kept.get(key)
        if old is not None and event.kind is KernelKind.OOM_KILL and not _at_once(old, event):
            kept[key, len(kept)] = kept.pop(key)  # numbers come again
            old = None
        if old is None:
            kept[key] = event
        elif event.kind is KernelKind.OOM_KILL:
            kept[key] = _joined(old, event)
        else:
            worse = event.fault is Fault.HARDWARE and old.fault is not Fault.HARDWARE
            kept[key] = replace(event if worse else old, count=old.count + event.count)
    yield from kept.values()


def _at_once(first: KernelEvent, second: KernelEvent) -> bool:
    for a, b in ((first.uptime, second.uptime), (first.time, second.time)):
        if a is not None and b is not None:
            return abs(a - b) <= _NEAR
    return True


def _joined(first: KernelEvent, second: KernelEvent) -> KernelEvent:
    """Return one kill of the two lines for it: the one with the size of the process leads."""
    lead, other = (second, first) if "rss" in second.text else (first, second)
    return replace(lead, beside=first.beside | second.beside, device=lead.device or other.device)


def host_in_name(path: str, hosts: Iterable[str]) -> str | None:
    """Return which of the known hosts a file or its folder is named after, the longest name."""
    parts = Path(path).parts[-3:]
    found = [host for host in hosts if any(_names(part, host) for part in parts)]
    return max(found, key=len, default=None)


def _names(part: str, host: str) -> bool:
    at = part.find(host)
    before = part[at - 1] if at > 0 else "."
    behind = part[at + len(host)] if at >= 0 and at + len(host) < len(part) else "."
    return at >= 0 and not before.isalnum() and not behind.isalnum()
