"""Which files are meant: the logs of a job, and what lies beside them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from postmortem.facts.inventory import Inventory, Item, Kind, came_again
from postmortem.facts.source import Problem
from postmortem.patterns import Pattern
from postmortem.readers.below import files_below
from postmortem.readers.bundles import REPEATS, repeats
from postmortem.readers.codecs import StreamError
from postmortem.readers.job_runs import MOST_LOOKED_AT, runs_apart
from postmortem.readers.log_clock import text_ends
from postmortem.readers.log_files import STANDARD_INPUT, keep_standard_input
from postmortem.readers.log_heads import known_head, looks_like_binary, text_head
from postmortem.readers.ranklogs.collected import is_list
from postmortem.readers.ranklogs.hung import (
    FLIGHT,
    KERNEL,
    RECORDER,
    STACKS,
    crashed_in,
    kind_of_file,
)
from postmortem.readers.ranklogs.job_records import holds_records
from postmortem.readers.ranklogs.log_names import (
    PACKED,
    LogFile,
    has_name_of_log,
    host_above,
    named,
    told_together,
    with_true_hosts,
)
from postmortem.readers.ranklogs.number_columns import STATE, bad_column
from postmortem.readers.ranklogs.pods import is_pods
from postmortem.readers.ranklogs.runs import in_run, older_runs
from postmortem.readers.ranklogs.wrapped import is_shipped
from postmortem.readers.regular import unread
from postmortem.readers.set_aside import copies
from postmortem.readers.stracefind import looks_like_log
from postmortem.records import record, replace
from postmortem.text import some
from postmortem.underway import Refused

HUNG = {STACKS: Kind.STACKS, RECORDER: Kind.RECORDER, FLIGHT: Kind.FLIGHT, KERNEL: Kind.KERNEL}
REFUSED = "is not a regular file"  # which is told of already
BEFORE = "is of a run that was started again"
_ONE_RUN = "name its files to read another one; postmortem triage tells of all"
_NAME_FILES = "name the files, or the folder that torchrun --log-dir wrote"
_ARCHIVE = Pattern(r"(?i)\.(?:zip|tar|tgz|tar\.\w{1,4})$")
_MOST_NAMED = 5
EMPTY, HIDDEN, NAMED_OTHERWISE = "is empty", "is hidden", "has the name of another kind of file"
_JOBS_OF_SACCT = b"JobID"
_DOCUMENTS = (".json", ".yaml", ".yml")
_NO_LOGS = (
    ".py .json .pkl .pt .pth .safetensors .bin .so .npy .npz .parquet .csv .png .svg .html .yaml "
    ".yml .toml .time .pids .strace .core .pickle .tfevents .zip .tar .sh .md"
).split()
_PROSE = Pattern(r"(?i)(?:readme|notes?|todo|changelog|licen[cs]e)(?:\.txt)?")
_ELASTIC_ERROR = Pattern(r"attempt_(?P<attempt>\d{1,18})/(?P<local>\d{1,18})/error\.json$")
# ray/_private/ray_constants.py, node.py: files in logs/ of a session.
_RAYLET = Pattern(r"raylet[._]|python-core-(?:worker|driver)-")
_RAYS_OWN = Pattern(
    r"(?:raylet|gcs_server|(?:python-core|io)-|worker-|runtime_env|dashboard|(?:log_)?monitor|"
    r"ray_client|debug_state|event_|\w+_port_)"
)
_RAY_SERVICE = Pattern(
    r"(?:dashboard(?:_\w+)?|gcs_server|log_monitor|monitor|runtime_env_agent)\.(?:log|out|err)"
)
_NEXTFLOW = Pattern(r"\.(?:command\.(?:log|out|err)|exitcode|nextflow\.log)$")
"""Hidden, and what a task of Nextflow wrote."""
_OF_TASK, _WHOLE = Pattern(r"\.command\.(?:out|err)$"), ".command.log"
"""What both streams of a task hold stands in one file, too."""
_NUMBER = Pattern(r"\d+")
_FIRST_LINES, _OF_QUERY = 5, 100
_MOST_PACKAGES = 500
_SETTING = Pattern(r"\s*(?:[#;].*|\[[A-Za-z][\w .-]*\]|[A-Za-z][\w.-]*\s*=.*)?")
"""A line of a systemd unit, or of a file of settings in sections."""
_PACKAGE = Pattern(r"\s*(?:#.*|-e .*|[\w.-]+(?:\[[\w.,-]*\])? *(?:[=<>~!]=.*|@ .*)?)?")
"""A line of what pip freeze prints, or of a file of requirements."""
_DIFF = Pattern(r"(?m)^--- .*\r?\n\+\+\+ .*\r?\n@@ -\d+.* @@")
_STRACE = Pattern(r"(?m)^(?:\[pid +\d+\] |\d+ +)?(?:[\d:.]+ )?[a-z_0-9]+\(.*\) += ")


@record
class Found:
    """The files of one job."""

    logs: tuple[LogFile, ...]
    errors: tuple[LogFile, ...]
    """error.json of torchelastic's @record."""
    dumps: tuple[str, ...] = ()
    """Stacks of live processes, as py-spy, pystack, gdb and faulthandler write them."""
    recorders: tuple[str, ...] = ()
    """Dumps of PyTorch's flight recorder."""
    flights: tuple[str, ...] = ()
    """Files of the numerics monitor."""
    kernel_logs: tuple[str, ...] = ()
    """What dmesg, journalctl -k and syslog daemons wrote."""
    problems: tuple[Problem, ...] = ()
    """What was left out that may be evidence, and why."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Files of folders that are none of these, each with the reason."""
    unread: tuple[str, ...] = ()
    """Those of them that may not be read and are called as a log is, but for their numbers."""
    without_driver: bool = False
    """All logs are of a Ray session, and what its driver printed is not among them."""


def find_rank_logs(names: Iterable[str]) -> Found:
    """Return the logs that are meant; a name that stands for none is a problem."""
    logs: dict[str, LogFile] = {}
    errors: dict[str, LogFile] = {}
    hung: dict[str, str] = {}
    problems: list[Problem] = []
    left_out: list[tuple[str, str]] = []
    for name in names:
        path, piped = Path(name), name == STANDARD_INPUT
        if piped:
            keep_standard_input()
        if not piped and path.is_dir():
            before, known = len(errors) + len(hung), set(logs)
            below = list(files_below(name, problems, _matters))
            old, said = older_runs(below)
            problems += said
            for file in below:
                if in_run(file, old):
                    continue
                kind = kind_of_file(file)
                if kind is not None:
                    hung[file] = kind
                    continue
                why = _sort_in(file, str(path), logs, errors, chosen=False)
                if why is not None:
                    left_out.append((file, why))
            kinds = {file: HUNG[kind] for file, kind in hung.items()}
            kinds |= dict.fromkeys(errors, Kind.ERROR_FILE) | dict.fromkeys(logs, Kind.LOG)
            for file, why in _started_again(below, kinds, problems).items():
                left_out.append((file, why))
                for table in (logs, errors, hung):
                    table.pop(file, None)
            new = logs.keys() - known
            if len(errors) + len(hung) == before and all(map(_lists_packages, new)):
                for file in new:
                    del logs[file]
                if not problems:
                    packed = any(map(_ARCHIVE.search, below))
                    hint = _NAME_FILES if not packed else "postmortem DIR reads archives too"
                    problems.append(Problem(name, "holds no logs", hint))
        elif (kind := kind_of_file(name)) is not None:
            hung[name] = kind
        elif piped:
            logs[name] = LogFile(name)
        elif path.exists() or path.is_symlink():
            _sort_in(name, str(path.parent), logs, errors, chosen=True)
        else:
            problems.append(Problem(name, "no such file or folder"))
    sessions = {Path(path).parent for path in logs if _RAYLET.match(Path(path).name)}
    left_out += _services_of_ray(logs, sessions)
    alone = not logs and not errors and len(hung) == 1  # its own lines tell the most
    for dump in [dump for dump, kind in hung.items() if kind == STACKS]:
        if (pid := crashed_in(dump)) is not None:
            one = named(dump, str(Path(dump).parent))
            logs[dump] = one if alone else replace(one, crashed=pid)
            del hung[dump]
    return Found(
        told_together(logs.values()),
        tuple(with_true_hosts(errors.values())),
        dumps=tuple(path for path, kind in hung.items() if kind == STACKS),
        recorders=tuple(path for path, kind in hung.items() if kind == RECORDER),
        flights=tuple(path for path, kind in hung.items() if kind == FLIGHT),
        kernel_logs=tuple(path for path, kind in hung.items() if kind == KERNEL),
        problems=(*problems, *_worth_telling(left_out)),
        left_out=tuple(left_out),
        unread=tuple(_closed(logs, left_out)),
        without_driver=_is_without_driver(logs, sessions),
    )


def _started_again(
    below: Iterable[str], kinds: Mapping[str, Kind], problems: list[Problem]
) -> dict[str, str]:
    """Return the files of runs that were started again, and why they are not read."""
    items = tuple(Item(path, kinds.get(path, Kind.OTHER), 0) for path in below)
    few = sum(item.kind is Kind.LOG for item in items) <= MOST_LOOKED_AT
    runs = runs_apart(Inventory(items)) if few else ()
    old = [run for run in runs if came_again(run, runs)]
    if old:
        others = some([Path(run.name).name for run in old], _MOST_NAMED)
        newest = Path(runs[-1].name).name
        what = f"holds several runs: {newest} is the newest and was read, not {others}"
        problems.append(Problem(str(Path(runs[-1].name).parent), what, _ONE_RUN))
    twice = copies([item.path for item in items if item.kind is Kind.LOG]) if few else ()
    return {path: BEFORE for run in old for path in run.paths} | dict.fromkeys(twice, REPEATS)


def _closed(logs: Iterable[str], left_out: Iterable[tuple[str, str]]) -> Iterator[str]:
    forms = {_NUMBER.sub("#", path) for path in logs}
    like = (path for path, _ in left_out if _NUMBER.sub("#", path) in forms)
    return (path for path in like if not os.access(path, os.R_OK))


def _is_without_driver(logs: Iterable[str], sessions: Collection[Path]) -> bool:
    """Return whether all logs are what Ray keeps of its sessions: nothing a driver printed."""
    roots = {folder.parent for folder in sessions}
    kept = (
        not roots.isdisjoint((folder, *folder.parents))
        and (folder not in sessions or _RAYS_OWN.match(name) is not None)
        for folder, name in ((Path(path).parent, Path(path).name) for path in logs)
    )
    return bool(sessions) and all(kept)


def _services_of_ray(logs: dict[str, LogFile], sessions: Collection[Path]) -> list[tuple[str, str]]:
    """Take what Ray's own services wrote out of the logs of its sessions, and return it.

    They log what they catch, all the time; what ends a job the workers and the raylet tell.
    """
    found = [p for p in logs if Path(p).parent in sessions and _RAY_SERVICE.match(Path(p).name)]
    for path in found:
        del logs[path]
    return [(path, "is of a service of Ray's, which logs what it catches") for path in found]


def _worth_telling(left_out: list[tuple[str, str]]) -> Iterator[Problem]:
    """Yield what may have been a log: one of each reason, with how many there are."""
    reasons: dict[str, list[str]] = {}
    for path, why in left_out:
        if why not in (NAMED_OTHERWISE, EMPTY, HIDDEN, REFUSED, REPEATS, BEFORE):
            reasons.setdefault(why, []).append(path)
    for why, paths in reasons.items():
        more = f"; so it is with {len(paths) - 1:,} more files" if len(paths) > 1 else ""
        yield Problem(paths[0], f"{why}: left out{more}")


def _matters(path: str) -> bool:
    return kind_of_file(path) is not None or (has_name_of_log(path) and may_be_log(path))


def _sort_in(
    path: str, root: str, logs: dict[str, LogFile], errors: dict[str, LogFile], *, chosen: bool
) -> str | None:
    """Put a file where it belongs; returns why it belongs nowhere, if it does not."""
    if chosen and _ELASTIC_ERROR.search(str(Path(path).absolute())):
        root = ""
    found = _ELASTIC_ERROR.search(path)
    if found:
        errors[path] = LogFile(
            path,
            local_rank=int(found["local"]),
            host=host_above(path, root),
            attempt=int(found["attempt"]),
        )
        return None
    why = None if chosen else _why_no_log(path)
    if why is None:
        logs[path] = named(path, root)
    return why


def may_be_log(path: str) -> bool:
    """Return whether a file that nobody named is text, and no evidence of another kind."""
    return _why_no_log(path) is None


def _lists_packages(path: str) -> bool:
    """Return whether a text is what pip prints of an environment, and no log."""
    lines = known_head(path).decode("utf-8", "replace").splitlines()
    return all(map(_PACKAGE.fullmatch, lines[:_MOST_PACKAGES])) and any("==" in x for x in lines)


def _holds_settings(text: str) -> bool:
    lines = text.splitlines()
    return any(line[:1] == "[" for line in lines) and all(map(_SETTING.fullmatch, lines))


def _is_query(end: str) -> bool:
    """Return whether nothing but the fields of `nvidia-smi -q` stands at the end of its output."""
    lines = end.replace("\0", "").splitlines()[1:]
    return all(line.startswith(("    ", "GPU ")) or " : " in line for line in lines if line.strip())


def _tells_how_it_ended(path: str, suffix: str) -> bool:
    """Return whether a file with another kind's name is what one asks a scheduler for.

    Or a table of metrics, in which the loss is none to the end.
    """
    if (suffix == ".csv" or path.endswith(STATE)) and bad_column(path) is not None:
        return True
    if suffix == ".csv":
        return _JOBS_OF_SACCT in known_head(path)
    if suffix not in _DOCUMENTS:
        return False
    head = known_head(path)
    listed = suffix == ".json" and (is_list(head) or is_shipped(head))
    return is_pods(head) or listed or holds_records(path, head)


def _why_no_log(path: str) -> str | None:
    """Return why a file that nobody named is none of the logs; None where it may be one."""
    name = Path(path).name
    plain = name
    for suffix in PACKED:
        plain = plain.removesuffix(suffix)
    if name.startswith(".") and not _NEXTFLOW.match(name):
        return HIDDEN
    if repeats(path) or (_OF_TASK.match(name) and Path(path).with_name(_WHOLE).exists()):
        return REPEATS
    if _tells_how_it_ended(path, Path(plain).suffix):
        return None
    if any(plain.endswith(suffix) for suffix in _NO_LOGS) or _PROSE.fullmatch(plain):
        return NAMED_OTHERWISE
    try:
        if not Path(path).stat().st_size:
            return EMPTY
        head = text_head(path)
    except Refused:
        return REFUSED
    except OSError as error:
        return unread(error)
    except StreamError as error:
        return f"cannot be unpacked: {error}"
    if not head:
        return "holds zero bytes only"
    if looks_like_binary(head):
        return "is not text"
    if head.lstrip()[:1] in b"[#;" and _holds_settings(head.decode("utf-8", "replace")):
        return "holds settings"
    if head[:1] in b"-dI" and _DIFF.search(head.decode("latin-1")):  # diff --git, Index:
        return "is a diff"
    if b"NVSMI LOG=" in head[:_OF_QUERY] and _is_query(text_ends(path)[1]):
        return "is what nvidia-smi printed: postmortem doctor reads it"
    first = [line for line in head.splitlines()[:_FIRST_LINES] if line.strip()]
    is_strace = len(_STRACE.findall(head.decode("latin-1"))) >= 3 or (
        len(first) > 1 and all(map(looks_like_log, first))
    )
    return "is a log of strace: postmortem strace explains it" if is_strace else None
