"""What tools printed into files: nvidia-smi and DCGM of GPUs, df of file systems, sinfo of nodes.

The forms are those of nvidia-smi's manual page and of DCGM's user guide, and of what people show of
them in public; not yet held against a GPU.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as Xml

from postmortem.errors import EvidenceError
from postmortem.facts.health import Health, Reading
from postmortem.facts.source import Problem
from postmortem.patterns import Pattern
from postmortem.readers.health.forms import DIAGNOSTIC, LARGEST, QUERY, is_health
from postmortem.readers.health.nodes import lists_nodes, readings_of_nodes
from postmortem.readers.health.nvidia import nvlink_errors, nvlink_states, readings_of_gpus
from postmortem.readers.health.room import is_df, readings_of_df
from postmortem.readers.log_heads import in_utf_8
from postmortem.readers.regular import read_regular, unread
from postmortem.records import record, replace

_DEEPEST = 32
_UUID = Pattern(r"GPU-[0-9a-fA-F-]{8,60}")
_FIELD = Pattern(r"^( *)(\S[^:]*?) *(?: : *(.*))?$")
_GPU = Pattern(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)$")
_ROW = Pattern(r"^\|([^|]*)\|([^|]*)\|\s*$")
_SECTION = Pattern(r"^[|+]-{3,} +(\S.*?) +-{2,}")
_NUMBERS = Pattern(r"GPUs?:? *(\d[\d, ]*)")
_REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")
_PADDING = 2
_RESULTS = ("Pass", "Fail", "Skip", "Warn")
_NO_TESTS = ("Diagnostic", "Overall Health", "GPU", "Errors", "Metadata")
_NAMES = {
    # As `-q` names what `-q -x` has under another name.
    "pci/replays_since_reset": "replay_counter",
    "retired_pages/pending_page_blacklist": "pending_retirement",
    "remapped_rows/uncorrectable_error": "remapped_row_unc",
    "remapped_rows/pending": "remapped_row_pending",
    "remapped_rows/remapping_failure_occurred": "remapped_row_failure",
}


def recorded_health(paths: Sequence[str]) -> tuple[Health, Health | None]:
    """Return the last number of each kind, and the first where files of one machine have several.

    Machines are told apart by their GPUs' UUIDs; where several are, each subject names its file.
    Raises EvidenceError for a file that cannot be read, or is none of these.
    """
    found: list[tuple[str, float, str, list[Reading]]] = []
    problems: list[Problem] = []
    for path in paths:
        text = _text(path)
        rows = [*_readings(text, path, problems)]
        uuid = _UUID.search(text)
        found.append((uuid[0] if uuid else path, Path(path).stat().st_mtime, path, rows))
    found.sort(key=lambda one: one[1])
    several = len({machine for machine, _, path, _ in found if machine != path}) > 1
    first: dict[tuple[str, str, str], Reading] = {}
    last: dict[tuple[str, str, str], Reading] = {}
    compared = False
    for machine, _, path, rows in found:
        for row in rows:
            key = (machine, row.subject, row.name)
            shown = replace(row, subject=f"{row.subject} in {Path(path).name}") if several else row
            compared = compared or key in first
            first.setdefault(key, shown)
            # Of the first place in which it was seen: its name is what the two are compared by.
            last[key] = replace(shown, subject=first[key].subject)
    now = Health("", None, found[-1][1], tuple(last.values()), tuple(problems))
    before = Health("", None, found[0][1], tuple(first.values())) if compared else None
    return now, before


def _text(path: str) -> str:
    try:
        data = read_regular(path, most=LARGEST)
    except OSError as error:
        raise EvidenceError(path, unread(error)) from error
    text = in_utf_8(data).decode("utf-8", "replace")
    if not is_health(text):
        raise EvidenceError(path, "is not output of nvidia-smi -q, nvlink -e, dcgmi, df or sinfo")
    return text


def _readings(text: str, path: str, problems: list[Problem]) -> Iterator[Reading]:
    name = Path(path).name
    rows: Iterator[Reading]
    if is_df(text):
        rows = readings_of_df(text)
    elif lists_nodes(text):
        rows = readings_of_nodes(text)
    elif DIAGNOSTIC.search(text):
        rows = _diagnosed(text)
    elif QUERY.search(text):
        rows = readings_of_gpus(_gpus(text, path, problems))
    else:
        rows = iter((*nvlink_errors(text), *(one for one in nvlink_states(text) if one.value)))
    return (replace(row, command=name) for row in rows)


def _gpus(text: str, path: str, problems: list[Problem]) -> list[Xml.Element]:
    """Return the elements of ``nvidia-smi -q -x``, or such ones made of what ``-q`` prints."""
    start = text.find("<nvidia_smi_log>")
    if start >= 0:
        try:
            return Xml.fromstring(text[start:]).findall("gpu")
        except Xml.ParseError as error:
            problems.append(Problem(path, f"is not complete XML: {error}"))
            return []
    gpus: list[Xml.Element] = []
    above: list[tuple[int, Xml.Element]] = []
    for line in text.splitlines():
        gpu = _GPU.match(line)
        if gpu:
            gpus.append(Xml.Element("gpu", id=gpu[1]))
            above = [(0, gpus[-1])]
            continue
        field = _FIELD.match(line)
        if not field or not above:
            continue
        depth = len(field[1])
        while len(above) > 1 and above[-1][0] >= depth:
            above.pop()
        if depth == 0 or len(above) > _DEEPEST:
            continue
        over = above[-1][1]
        tag = field[2].strip().lower().replace(" ", "_")
        if over.tag == "hw_slowdown":
            over = above[-2][1]
        if over.tag in _REASONS:
            tag = f"{over.tag[:-1]}_{tag}"
        if tag.endswith("_hw_slowdown"):
            tag = "hw_slowdown"
        element = Xml.SubElement(over, _NAMES.get(f"{over.tag}/{tag}", tag))
        element.text = field[3]
        above.append((depth, element))
    return gpus


def _diagnosed(text: str) -> Iterator[Reading]:
    """Yield what ``dcgmi diag`` or ``dcgmi health`` found to be bad, or one number 0."""
    failed = [one for one in _tests(text) if one.failed]
    for test in failed:
        numbers = _NUMBERS.search(test.result[test.result.find("Fail") :]) or _NUMBERS.search(
            test.words
        )
        gpus = numbers[1].replace(",", " ").split() if numbers else []
        said = f"{test.name}: {test.words}" if test.words else test.name
        for subject in [f"GPU {one}" for one in gpus] or ["GPUs"]:
            yield Reading(subject, "dcgm_failed", 1, "", said[:200])
    if not failed:
        yield Reading("GPUs", "dcgm_failed", 0, "")


@record
class _Test:
    name: str
    result: str = ""
    words: str = ""
    """Of the error or the warning below it."""

    @property
    def failed(self) -> bool:
        """Of errors that stand below a heading only, no test is named."""
        return "Fail" in self.result or bool(self.words and not self.result)


def _tests(text: str) -> Iterator[_Test]:
    """Yield the rows of a table; a cell goes on in rows whose first cell is empty."""
    test, gpu, is_full, is_info = _Test(""), "", False, False
    for line in text.splitlines():
        section, row = _SECTION.match(line), _ROW.match(line)
        if section:
            name, said = section[1], ""
        elif row:
            name, said = row[1].strip(" ->"), row[2]
        else:
            continue
        if name in _NO_TESTS:
            continue
        is_info = name == "Info" or (is_info and not name)
        if is_info:
            continue
        if name.isdecimal():
            gpu = f" - GPU: {name}"
        elif name in ("Error", "Warning"):
            test = replace(test, words=f"{test.words} {said.strip()}".strip())
        elif name:
            yield test
            test = _Test(name, f"{said.strip()}{gpu}" if said.strip() else "")
        elif said.strip().startswith(_RESULTS):
            test = replace(test, result=f"{test.result}; {said.strip()}")
        else:
            # A long text is cut where the cell ends, within a word too.
            gap = "" if is_full else " "
            test = replace(test, words=f"{test.words}{gap}{said[1:].rstrip()}".strip())
        is_full = len(said.rstrip()) >= len(said) - _PADDING
    yield test
