"""Which texts are what tools printed of the state of hardware, by their form alone."""

from collections.abc import Iterable
from pathlib import Path

from postmortem.patterns import Pattern
from postmortem.readers.formats import HEAD_BYTES
from postmortem.readers.health.nodes import lists_nodes
from postmortem.readers.health.room import is_df
from postmortem.readers.log_heads import in_utf_8, known_head
from postmortem.readers.regular import read_regular

LARGEST = 64 << 20
QUERY = Pattern(r"<nvidia_smi_log>|(?m:^Attached GPUs +: \d|^=+NVSMI LOG=+$)")
DIAGNOSTIC = Pattern(r"(?m)^\| ?Diagnostic +\| Result +\||^\| Health Monitor Report ")
_LINKS = Pattern(r"(?m)^GPU \d{1,3}: .*\n\s+Link \d{1,3}: ")
_FORMS = (
    (QUERY, ("<nvidia_smi_log>", "Attached GPUs ", "NVSMI LOG=")),
    (DIAGNOSTIC, ("Diagnostic ", "Health Monitor Report ")),
    (_LINKS, ("Link ",)),
)
"""Each form with texts one of which it has: all files of a folder are looked at."""
_OWN = Pattern(
    r"\s|\||\+[-=+]|[-=]{3}|</?nvidia_smi_log>|GPU [0-9A-F]|[A-Z][\w ./-]*  : |Successfully ran "
    r"|.*[$#>] *(?:sudo +)?(?:nvidia-smi|dcgmi)\b|(?:nvidia-smi|dcgmi) -?\w"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} .*\d{4}$|$"
)
"""How lines of theirs begin, what is asked for above them, and the day."""
_ABOVE = Pattern(r"[#=*<-]|Executing in |Defaulted container |Timestamp")
"""How else whoever asked may begin a line above. A job's log has others there, or behind it."""


def is_health(text: str) -> bool:
    """Return whether a text is one of these outputs, or several, and nothing else."""
    found = [form.search(text) for form, has in _FORMS if any(one in text for one in has)]
    begin = min((one.start() for one in found if one), default=None)
    if begin is None:
        return is_df(text) or lists_nodes(text)
    above = all(_OWN.match(line) or _ABOVE.match(line) for line in text[:begin].splitlines())
    return above and all(map(_OWN.match, text[begin:].splitlines()))


def is_file_of_health(path: str, head: bytes) -> bool:
    """Return whether a file that begins with `head` is one of these outputs."""
    whole = len(head) < HEAD_BYTES
    if not is_health((head if whole else head[: head.rfind(b"\n")]).decode("latin-1")):
        return False
    try:
        return whole or is_health(in_utf_8(read_regular(path, most=LARGEST)).decode("latin-1"))
    except OSError:
        return False


def are_health(paths: Iterable[str]) -> bool:
    """Return whether files are such outputs, all of them."""
    return all(Path(path).is_file() and is_file_of_health(path, known_head(path)) for path in paths)
