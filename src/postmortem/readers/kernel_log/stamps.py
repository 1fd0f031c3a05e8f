"""What stands before the text of a kernel's line: priorities, times, hosts, tags.

Forms: printk with and without ``<N>`` and the caller, dmesg -T -e -d -x and --time-format iso
(util-linux sys-utils/dmesg.c), /dev/kmsg, journalctl -o short* (systemd src/shared/logs-show.c),
rsyslog's traditional and RFC 3339 files, and any of those behind ``HOST: `` of pdsh or clush,
or ``FILE:`` of grep.
"""

import calendar

from postmortem.patterns import Pattern
from postmortem.records import record, replace

_KMSG = Pattern(r"(?P<priority>\d{1,4}),\d{1,20},(?P<us>\d{1,16}),[^;]{1,60};")
_USER = 8
"""The least priority of a facility that is not the kernel's."""
_PRIORITY = Pattern(r"<\d{1,3}>")
_DECODED = Pattern(r"(?:kern|user|daemon|auth|syslog|authpriv|local\d) *:[a-z]{3,6} *: ?")
_UPTIME = Pattern(r"\[ *(?P<s>\d{1,9}\.\d{3,9})(?: <[ +\d.]+>)?\] ?(?:\[ *[TC]\d+\] ?)?")
_WALL = Pattern(
    r"\[(?:[A-Z][a-z]{2} )?(?P<month>[A-Z][a-z]{2}) *(?P<day>\d{1,2}) "
    r"(?P<hms>\d\d:\d\d(?::\d\d)?)(?: (?P<year>\d{4}))?(?: <[ +\d.]+>)?\] ?"
)
_KERNEL = Pattern(r" ?kernel: ?(?=\[|[A-Z]\w+: )")
"""Before what syslog's daemon writes to all terminals, or what was cut out behind a time."""
_DELTA = Pattern(r"\[ *[<+][ +]*\d+\.\d+>?\] ?")
_ISO_DMESG = Pattern(
    r"(?P<date>\d{4}-\d\d-\d\d)T(?P<hms>\d\d:\d\d:\d\d),\d{3,9}(?:Z|[+-]\d\d:?\d\d)? "
)
_SYSLOG = Pattern(
    r"(?:(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) (?P<hms>\d\d:\d\d:\d\d)(?:\.\d+)?"
    r"|(?:[A-Z][a-z]{2} )?(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:\.\d+)?"
    r"(?:Z| ?[A-Z]{3,5}|[+-]\d\d:?\d\d)?"
    r"|(?P<unix>\d{9,11})\.\d{6})"
    r" (?P<host>[A-Za-z0-9][\w.-]{0,252}) (?P<tag>[A-Za-z][\w./@-]{0,60})(?:\[\d+\])?: ?"
)
# Of what journalctl -o short-monotonic prints only the kernel's lines can be told from dmesg's.
_MONOTONIC = Pattern(r"\[ *(?P<up>\d{1,9}\.\d{6})\] (?P<host>[A-Za-z0-9][\w.-]{0,252}) kernel: ")
_HOST = Pattern(r"(?:(?P<host>[A-Za-z0-9][\w.-]{0,252}): |[\w./-]{1,252}:)(?=[\[<\dA-Z])")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
NO_YEAR = 1972
"""Stands in for the year where a line has none: a leap year, so that every day exists."""


@record
class Stamped:
    """A line taken apart."""

    text: str
    host: str | None = None
    time: float | None = None
    uptime: float | None = None
    tag: str | None = None
    """Who wrote it, in a log of all programs; None in a log of the kernel alone."""
    known: bool = False
    """Whether anything stood before the text."""


def stamped(line: str) -> Stamped:
    """Return a line without what stands before its text."""
    found = _one(line)
    if not found.known and (host := _HOST.match(line)):
        behind = _one(line[host.end() :])
        if behind.known:
            return replace(behind, host=behind.host or host["host"])
    return found


def _one(line: str) -> Stamped:
    at = 0
    uptime: float | None = None
    time: float | None = None
    host: str | None = None
    tag: str | None = None
    if kmsg := _KMSG.match(line):
        tag = "kernel" if int(kmsg["priority"]) < _USER else None
        return Stamped(line[kmsg.end() :], uptime=int(kmsg["us"]) / 1e6, tag=tag, known=True)
    for mark in (_PRIORITY, _DECODED):
        if found := mark.match(line, at):
            at = found.end()
            tag = "kernel" if found[0].startswith("kern") else None
    if syslog := _SYSLOG.match(line, at):
        host, tag, at = syslog["host"], syslog["tag"], syslog.end()
        if syslog["unix"]:
            time = float(syslog["unix"])
        elif syslog["date"]:
            time = _seconds(syslog["date"], None, None, syslog["time"])
        elif syslog["hms"]:
            time = _seconds(None, syslog["month"], syslog["day"], syslog["hms"])
    elif named := _KERNEL.match(line, at):
        tag, at = "kernel", named.end()
    elif monotonic := _MONOTONIC.match(line, at):
        host, tag, at = monotonic["host"], "kernel", monotonic.end()
        uptime = float(monotonic["up"])
    elif iso := _ISO_DMESG.match(line, at):
        at, time = iso.end(), _seconds(iso["date"], None, None, iso["hms"])
    elif wall := _WALL.match(line, at):
        at = wall.end()
        time = _seconds(wall["year"], wall["month"], wall["day"], wall["hms"])
    elif delta := _DELTA.match(line, at):
        at = delta.end()
    if (up := _UPTIME.match(line, at)) is not None:
        uptime, at = float(up["s"]), up.end()
    return Stamped(line[at:], host, time, uptime, tag, at > 0)


def _seconds(year: str | None, month: str | None, day: str | None, clock: str) -> float | None:
    """Return a time of a line's own clock as if it were UTC; None if there is no such time."""
    numbers = [int(part) for part in clock.split(":")]
    if year is not None and "-" in year:
        of_year, of_month, of_day = (int(part) for part in year.split("-"))
    else:
        of_year = int(year) if year else NO_YEAR
        place = _MONTHS.find(month or "?")
        of_month, of_day = place // 3 + 1, int(day or 0)
        if place < 0 or place % 3:
            return None
    if not (1 <= of_month <= 12 and 1 <= of_day <= 31 and 1970 <= of_year < 3000):
        return None
    hour, minute, second = (*numbers, 0)[:3]
    return float(calendar.timegm((of_year, of_month, of_day, hour, minute, second, 0, 0, 0)))
