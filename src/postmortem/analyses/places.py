"""The source of the places on a card, where the file on this machine is the one that ran."""

from collections.abc import Iterable
from pathlib import Path

from postmortem.facts.memory import BinaryFacts
from postmortem.facts.process import Process
from postmortem.present.places import with_values_in_order
from postmortem.readers.source_lines import find_source, read_lines
from postmortem.records import replace
from postmortem.report.card import Highlights, Place
from postmortem.report.model import Report


def with_source(
    shown: Highlights, *, folders: Iterable[str] = (), ran: float | None = None
) -> Highlights:
    """Return the highlights with the source of their places.

    `folders` are where a relative name may lie; `ran` is when the code ran, in seconds since 1970:
    a file that was changed later is shown and marked. A place that has its line already, from the
    evidence itself, gets the lines around it only from a file that says the same.
    """
    return replace(
        shown, places=tuple(_with_source(one, tuple(folders), ran) for one in shown.places)
    )


def report_with_source(
    report: Report, *, folders: Iterable[str] = (), ran: float | None = None
) -> Report:
    """Return a report with the source of the places on its card, if it has one."""
    shown = report.highlights
    if shown is None:
        return report
    return replace(report, highlights=with_source(shown, folders=folders, ran=ran))


def core_with_source(
    report: Report, process: Process, binary: BinaryFacts | None, core: str
) -> Report:
    """Return the report on a core with the source as it was when the core was written."""
    folders = [value for name, value in process.env if name == "PWD"]
    if binary is not None:
        folders.append(str(Path(binary.path).parent))
    try:
        written = Path(core).stat().st_mtime
    except OSError:
        written = None
    return report_with_source(report, folders=folders, ran=written)


def _with_source(place: Place, folders: tuple[str, ...], ran: float | None) -> Place:
    path = find_source(place.file, folders) if place.file and place.line else None
    found = read_lines(path, place.line) if path and place.line else None
    if path is None or found is None:
        return with_values_in_order(place)
    lines, changed = found
    if place.source:
        known = dict(place.source).get(place.line or 0, "").strip()
        if dict(lines)[place.line or 0].strip() != known:
            return with_values_in_order(place)
        return with_values_in_order(replace(place, file=path, source=lines))
    doubt = "changed since" if ran is not None and changed > ran + 1 else None
    return with_values_in_order(replace(place, file=path, source=lines, doubt=doubt))
