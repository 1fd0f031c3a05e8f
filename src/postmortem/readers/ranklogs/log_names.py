"""What the names of logs say of who wrote them, each alone and several together."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.patterns import Pattern
from postmortem.readers.log_clock import text_ends
from postmortem.records import record, replace

if TYPE_CHECKING:
    from re import Match

PACKED = (".gz", ".zst", ".xz", ".bz2", ".lz4")
# torch/distributed/elastic/multiprocessing/api.py: LOG_DIR/RUN_ID_x/attempt_N/LOCAL_RANK/stderr.log
_ELASTIC = Pattern(r"attempt_(?P<attempt>\d{1,18})/(?P<local>\d{1,18})/(?:stdout|stderr)\.log$")
_RANK = Pattern(
    r"(?i)(?:^|[._-])(?:global_?)?"
    r"(?:rank|r|proc(?:ess)?(?=[._=-]?\d{1,4}(?!\d))|worker|task)[._=-]?"  # proc-25905: a pid
    r"(?P<rank>\d{1,6})(?=[._-]|$)"
)
_LETTER = Pattern(r"(?i)(?:^|[._-])r[._=-]?\d{1,6}(?=[._-]|$)")
_RANK_FOLDER = Pattern(r"(?i)^(?:global_?)?(?:rank|task|proc)[._-]?(?P<rank>\d{1,6})$")
_NODE = Pattern(
    r"(?i)^(?!slurm|job|log|run|train|out|err|std|test|trace|attempt|none_|part|step|epoch|exp|fr_)"
    r"(?P<host>[a-z][a-z0-9-]*?\d+[a-z0-9-]*|(?:node|host)[_-]?[a-z]|(?:gpu|server|machine|vm)[_-][a-z])(?=[._]|$)"
)
_RUN_FOLDER = Pattern(r"^postmortem-\d{8}-\d{6}-(?:(?P<host>.+)-)?\d+$")
# What administrators call machines; gpt2.log and llama7b.log are named after models.
_HOST_WORD = Pattern(
    r"(?i)^(node|host|gpu|dgx|hgx|compute|nid|cn|worker|server|machine|vm|instance|algo)|^ip-\d"
)
_NUMBER = Pattern(r"\d+")
_LOG_NAME = Pattern(r"(?i)\.(?:log|out|err|stdout|stderr|[oe]\d+)(?:\.|$)|std(?:out|err)")
# sbatch(1), "filename pattern": %x-%j-%t, %x-%J-%n-%t: a job's name, its number and step, a task.
_SLURM_TASK = Pattern(
    r"^(?P<job>[A-Za-z][\w-]*?[-_.]\d+(?:\.\d+)?)(?:[-_.](?P<node>\w[\w-]*?))?[-_.](?P<task>\d{1,6})$"
)
_SLURM_JOB = Pattern(r"^[A-Za-z][\w-]*?-(?:\d{5,}|\d+\.\d+-)")
# slurm-7_0.out and slurm-7_1.out are the jobs of an array.
_ARRAY = Pattern(r"(?:^|/)slurm[^/]*\d_$")
_COUNTED = Pattern(r"(?P<word>[A-Za-z]*)[^A-Za-z\d/]*(?P<number>\d{1,6})(?!\d)")
# What is counted where one program runs again, or does its work piece by piece.
_ONE_AFTER_ANOTHER = frozenset(
    "attempt batch case chunk epoch exp experiment fold iter iteration job part phase restart "
    "retry round run seed stage step sweep test trial try v ver version".split()
)
_STARTED_AGAIN = frozenset("attempt restart retry".split())
_PREVIOUS = Pattern(r"(?<=\w)[-_.]prev(?:ious)?(?=[._-]|$)")
_ONE_EMPTY_OF = 16
_STREAM = Pattern(r"(?:std)?(?:out|err)\b")
_OF_SEVERAL = Pattern(
    r"distributed_c10d\.py|ProcessGroup(?:NCCL|Gloo|MPI)|NCCL INFO|gloo/transport"
)
_RANK_OF_LINE = Pattern(r"(?m)^\W*(?:rank|default|local_rank)[ :]?(\d+)\W")
_LAUNCHER = Pattern(r"elastic[./](?:agent|multiprocessing[./]api)|ChildFailedError|Root Cause")


@record
class LogFile:
    """One file, and what its name says."""

    path: str
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    attempt: int | None = None
    crashed: int | None = None
    """The process of whose crash gdb tells in it; 0 where it does not say which."""


def has_name_of_log(path: str) -> bool:
    """Return whether a file is called as logs are; others of text may be, where they are few."""
    return _LOG_NAME.search(Path(path).name) is not None or names_a_rank(path)


def names_a_rank(path: str) -> bool:
    """Return whether the name of a file says which rank wrote it."""
    return _RANK.search(Path(path).name) is not None


def _unpacked(name: str) -> str:
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name


def named(path: str, root: str) -> LogFile:
    """Return what the name of a file says of who wrote it."""
    elastic = _ELASTIC.search(path)
    if elastic:
        return LogFile(
            path,
            local_rank=int(elastic["local"]),
            host=host_above(path, root),
            attempt=int(elastic["attempt"]),
        )
    stem = _unpacked(Path(path).name)
    rank = _RANK.search(stem) or _rank_above(path, root)
    node = _NODE.match(stem)
    if node and _SLURM_JOB.match(stem):
        node = None
    host = node["host"] if node and not _RANK.search(node["host"]) else host_above(path, root)
    if host is not None and rank and rank[0].strip("._-") == host:
        host = None
    return LogFile(path, rank=int(rank["rank"]) if rank else None, host=host)


def sections(file: LogFile, names: Iterable[str]) -> dict[str, LogFile]:
    """Return what the names of the files say whose parts ``tail`` shows in one output."""
    told = with_true_hosts([named(name, "") for name in names])
    return {one.path: replace(one, path=file.path) for one in told}


def told_together(logs: Collection[LogFile]) -> tuple[LogFile, ...]:
    """Return the logs of a job, with what their names say together of hosts and ranks."""
    files = _without_lone_letters(with_true_hosts(logs))
    return _of_a_series(_with_attempts(_with_tasks(_counted_on_each_host(files))))


def with_true_hosts(files: Collection[LogFile]) -> list[LogFile]:
    """Return the files, without the hosts that are only words in their names."""
    hosts = _hosts_of_a_series(files)
    return [_without_host(file, hosts) for file in files]


def _hosts_of_a_series(files: Iterable[LogFile]) -> set[str]:
    """Return the names that differ from another's in their numbers only: node1 and node2."""
    series: dict[str, set[str]] = {}
    for host in {file.host for file in files if file.host is not None}:
        series.setdefault(_NUMBER.sub("#", host), set()).add(host)
    return {host for hosts in series.values() if len(hosts) > 1 for host in hosts}


def _without_host(file: LogFile, series: set[str]) -> LogFile:
    """Return the file without a host that only its name suggests, one of no series of hosts."""
    if file.host is None or file.host in series or _HOST_WORD.match(file.host):
        return file
    return replace(file, host=None)


def _without_lone_letters(files: list[LogFile]) -> list[LogFile]:
    """Return the files; a letter is no rank where it counts nothing: r12_again.log alone."""
    lettered = [
        at for at, file in enumerate(files) if _LETTER.search(_unpacked(Path(file.path).name))
    ]
    if len({files[at].rank for at in lettered}) != 1:
        return files
    return [replace(file, rank=None) if at in lettered else file for at, file in enumerate(files)]


def _counted_on_each_host(files: list[LogFile]) -> list[LogFile]:
    """Return the files; ranks that the names give to several hosts are those hosts' own."""
    of = {(file.rank, file.host) for file in files if file.rank is not None and file.host}
    if len(of) == len({rank for rank, _ in of}):
        return files
    return [
        replace(file, rank=None, local_rank=file.rank) if (file.rank, file.host) in of else file
        for file in files
    ]


def _with_tasks(files: list[LogFile]) -> list[LogFile]:
    """Return the files, those of a step's tasks, 0 to n-1, with the task as the rank."""
    groups: dict[tuple[str, str], dict[int, tuple[int, str | None]]] = {}
    for index, file in enumerate(files):
        path = Path(file.path)
        found = _SLURM_TASK.match(path.name.partition(".out")[0].partition(".log")[0])
        if not found or _ARRAY.search(path.name[: found.start("task")]):
            continue
        if file.rank is None and file.local_rank is None:
            tasks = groups.setdefault((str(path.parent), found["job"]), {})
            tasks[int(found["task"])] = (index, found["node"])
    for tasks in groups.values():
        if len(tasks) < 2 or set(tasks) != set(range(len(tasks))):
            continue
        for task, (index, node) in tasks.items():
            host = node if node is not None and _NODE.match(node + ".") else None
            files[index] = replace(files[index], rank=task, host=host)
    return files


def _with_attempts(files: list[LogFile]) -> list[LogFile]:
    """Return the files, those whose names count the attempts of one job with that number.

    What `kubectl logs --previous` wrote is of the attempt before that of the file beside it.
    """
    paths = {file.path for file in files}
    before = [_without_previous(file.path) in paths - {file.path} for file in files]
    if any(before) and all(file.attempt is None for file in files):
        pairs = zip(files, before, strict=True)
        return [replace(file, attempt=0 if is_before else 1) for file, is_before in pairs]
    found = [
        next((one for one in _COUNTED.finditer(file.path) if _starts_again(one)), None)
        for file in files
    ]
    numbers = {int(one["number"]) for one in found if one is not None}
    if len(numbers) < 2 or None in found or max(numbers) - min(numbers) + 1 != len(numbers):
        return files
    least = min(numbers)
    return [
        replace(file, attempt=int(one["number"]) - least) if file.attempt is None and one else file
        for file, one in zip(files, found, strict=True)
    ]


def _without_previous(path: str) -> str:
    pure = Path(path)
    return str(pure.with_name(_PREVIOUS.sub("", pure.name)))


def _starts_again(counted: Match[str]) -> bool:
    return counted["word"].lower() in _STARTED_AGAIN


def _of_a_series(files: list[LogFile]) -> tuple[LogFile, ...]:
    """Return the files; where the names of a job's differ in one number alone, it is the rank.

    That number goes from 0 to n-1, but for a few (an empty log is none), and two logs at least are
    of single ranks: a program that ran n times and the nodes of a job leave such names too.
    """
    if any(file.rank is not None or file.local_rank is not None for file in files):
        return tuple(files)
    series: dict[tuple[str, str], dict[int, list[int]]] = {}
    for index, file in enumerate(files):
        path = _unpacked(file.path)
        for found in _COUNTED.finditer(path):
            word = found["word"].lower()
            if word not in _ONE_AFTER_ANOTHER and not _HOST_WORD.match(word):
                before, behind = path[: found.start("number")], path[found.end() :]
                before = before.replace(file.host or "\0", "#")  # each host has a part of them
                rest = (_STREAM.sub("#", before), _STREAM.sub("#", behind))
                series.setdefault(rest, {}).setdefault(int(found["number"]), []).append(index)
    whole = [
        ranks
        for (before, _), ranks in series.items()
        if len(ranks) > 1
        and max(ranks) < len(ranks) + len(ranks) // _ONE_EMPTY_OF
        and not _ARRAY.search(before)
        and all(len({files[i].host for i in indexes}) == 1 for indexes in ranks.values())
    ]
    if len(whole) == 1:
        together = ((files[indexes[0]].path, rank) for rank, indexes in whole[0].items())
        if sum(starmap(_is_of_one_rank, together)) > 1:
            for rank, indexes in whole[0].items():
                for index in indexes:
                    files[index] = replace(files[index], rank=rank)
    return tuple(files)


def _is_of_one_rank(path: str, rank: int) -> bool:
    """Return whether a log has what a rank of several writes, or names it, and no second one."""
    text = "\n".join(text_ends(path)[:2])
    ranks = set(map(int, _RANK_OF_LINE.findall(text)))
    told = ranks == {rank} or (len(ranks) < 2 and _OF_SEVERAL.search(text))
    return bool(told) and not _LAUNCHER.search(text)


def _between(path: str, root: str) -> tuple[str, ...]:
    """Return the folders between `root` and a file."""
    try:
        return Path(path).parent.relative_to(root).parts
    except ValueError:
        return ()


def host_above(path: str, root: str) -> str | None:
    """Return the host that a folder between `root` and the file is named after, if one is."""
    for part in _between(path, root):
        found = _RUN_FOLDER.match(part) or _NODE.match(part)
        if found and not _RANK_FOLDER.match(part):
            return found["host"]
    return None


def _rank_above(path: str, root: str) -> Match[str] | None:
    """Return the rank that a folder is named after: ``OUT/1/rank.3/stderr`` of Open MPI."""
    for part in reversed(_between(path, root)):
        found = _RANK_FOLDER.match(part)
        if found:
            return found
    return None
