"""What lies under some paths, by content: which file is evidence of which kind, and what is none.

Only heads of regular files are read.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from postmortem import underway
from postmortem.errors import EvidenceError
from postmortem.facts.inventory import Inventory, Item, Kind
from postmortem.facts.source import Problem
from postmortem.readers.apport import is_report, is_whole_without_core
from postmortem.readers.below import files_below
from postmortem.readers.bundles import REPEATS, repeats
from postmortem.readers.codecs import StreamError, beginning
from postmortem.readers.formats import elf_head, foreign
from postmortem.readers.health.forms import is_file_of_health
from postmortem.readers.log_heads import in_utf_8
from postmortem.readers.memory_snapshot import looks_like_snapshot
from postmortem.readers.ranklogs.hung import kind_of_file
from postmortem.readers.ranklogs.log_names import has_name_of_log
from postmortem.readers.ranklogs.sources import HUNG, may_be_log
from postmortem.readers.regular import open_regular, unread
from postmortem.readers.stracefind import TABLE_ALONE, has_table, is_table, looks_like_log, speaks
from postmortem.readers.watch_ring import is_watch_ring

_MOST_UNREADABLE = 50
_CHECKPOINTS = (".safetensors", ".pt", ".pth", ".npy", ".npz", ".gguf", ".distcp", ".ckpt", ".pt2")
_OWN = b'"schema": "postmortem/1"'


def take_inventory(names: Sequence[str]) -> Inventory:
    """Return what lies under the paths; raises EvidenceError where none of them is there."""
    items: dict[str, Item] = {}
    problems: list[Problem] = []
    for name in names:
        if not os.path.lexists(name):
            problems.append(Problem(name, "no such file or folder"))
            continue
        below = Path(name).is_dir()
        for path in files_below(name, problems, _matters) if below else (name,):
            if path not in items:
                items[path] = _item(path, problems)
    if names and not any(map(os.path.lexists, names)):
        raise EvidenceError(problems[0].where, problems[0].what)
    return Inventory(tuple(items.values()), tuple(problems))


def _matters(path: str) -> bool:
    """Return whether a file of a large sort is evidence: a text of no log's name is none."""
    kind = _item(path, []).kind
    return kind is not Kind.OTHER and (kind is not Kind.LOG or has_name_of_log(path))


def _item(path: str, problems: list[Problem]) -> Item:
    try:
        stream = open_regular(path)
    except OSError as error:
        why = unread(error)
        if not isinstance(error, underway.Refused) and len(problems) < _MOST_UNREADABLE:
            problems.append(Problem(path, why))
        return Item(path, Kind.OTHER, 0, why)
    with stream:
        status = os.fstat(stream.fileno())
        try:
            head, _ = beginning(stream)
        except OSError as error:
            return Item(path, Kind.OTHER, status.st_size, unread(error))
        except StreamError:
            return Item(path, Kind.OTHER, status.st_size, "is packed, and cannot be unpacked")
    kind = _kind(path, head)
    if kind is not Kind.OTHER:
        return Item(path, kind, status.st_size, None)
    why = "is not a log, core or recording" if status.st_size else "is empty"
    why = REPEATS if repeats(path) else TABLE_ALONE if has_table(head) else why
    if known := foreign(head):
        return Item(path, kind, status.st_size, f"is {known[0]}", known[1])
    return Item(path, kind, status.st_size, why)


def _kind(path: str, head: bytes) -> Kind:
    elf = elf_head(head)
    name = Path(path).name
    if elf is not None:
        return Kind.CORE if elf.is_core else Kind.OTHER
    if is_report(head) and not is_whole_without_core(head):
        return Kind.CORE
    if is_watch_ring(head):
        return Kind.WATCH
    if looks_like_snapshot(head):
        return Kind.MEMORY
    if head[257:262] == b"ustar":
        return Kind.ARCHIVE
    if name.endswith(_CHECKPOINTS) or name == ".metadata":
        return Kind.CHECKPOINT
    if head.startswith(b"PK\x03\x04"):
        return Kind.ARCHIVE
    if _OWN in head[:400]:
        return Kind.DOCUMENT
    if is_file_of_health(path, in_utf_8(head)):
        return Kind.HEALTH
    if is_table(head):
        return Kind.OTHER
    # One line that looks like a call may stand in any log; a recording has nothing else, but for
    # strace's command and its word that it was attached.
    first, _, rest = head.lstrip().partition(b"\n")
    told = speaks(first) and (looks_like_log(rest) or has_table(rest))
    if looks_like_log(first) or told or (looks_like_log(head) and not may_be_log(path)):
        return Kind.STRACE
    hung = kind_of_file(path)
    if hung is not None:
        return HUNG[hung]
    if name == "error.json":
        return Kind.ERROR_FILE
    return Kind.LOG if may_be_log(path) else Kind.OTHER
