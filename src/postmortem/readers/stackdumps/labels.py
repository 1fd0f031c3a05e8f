"""Which rank a dump is of, by the names of its file and folder."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from postmortem.facts.stackdumps import RankStack, StackDump
from postmortem.patterns import Pattern

_RANK = Pattern(r"(?i)(?:^|[^a-z])(?:local_?)?rank[-_. ]?(?P<rank>\d{1,7})(?!\d)")
_CHILD = Pattern(r"(?i)child|worker|subprocess")
_NUMBER = Pattern(r"(?<!\d)(?P<rank>\d{1,7})(?=\D*$)")
# Of the only node's only attempt: torchrun's folders are named after local ranks.
_ELASTIC = Pattern(r"attempt_\d{1,18}/(?P<rank>\d{1,7})/std(?:out|err)\.log$")
_TOLD = Pattern(r"--rank[= ](?P<rank>\d{1,7})(?!\S)")
_AGENT = Pattern(r"\btorchrun\b|torch[./]distributed[./](?:run|launch)\b|\baccelerate(?:-| )launch")
_SERVANT = Pattern(r"multiprocessing[. ](?:resource_tracker|forkserver)\b")
_WORKER_FILE = Pattern(r"torch/utils/data/_utils/worker\.py$|multiprocessing/resource_tracker\.py$")
_FETCH_FILE = Pattern(r"torch/utils/data/_utils/fetch\.py$")
_NONE: Mapping[int, int] = {}
_DIGIT = Pattern(r"\d")
_NODE = Pattern(r"(?i)(?P<host>(?:node|host|gpu|worker)[-_]?[a-z]*\d+[\w-]*?)(?=[._ -]*rank)")


def rank_stacks(
    files: Iterable[tuple[str, list[StackDump]]], ranks: Mapping[int, int] = _NONE
) -> list[RankStack]:
    """Return the main threads' stacks with their ranks, in the order of the files.

    `ranks` is what other evidence knows of processes: their ranks by pid.

    The dump itself may say the rank; else the file's or folder's name does (``rank3.txt``), else
    the one number that its name differs by from those of the others (``pyspy_3.txt``). Of several
    processes in the file of one rank the first is the rank's own, the others are its children. In a
    file that holds many processes each is one of the job, but for launchers, workers and what is
    below another in the file.
    """
    read = [(path, dumps) for path, dumps in files if not _CHILD.search(_stem(path))]
    numbers = _numbers([path for path, _ in read])
    if all(dump.pid == numbers.get(path) for path, dumps in read for dump in dumps):
        numbers = {}  # pids
    if not all(_serves(dump) for _, dumps in read for dump in dumps):
        read = [(p, d) for p, d in read if p in numbers or not all(map(_serves, d))]
    rows = [(path, dump) for path, dumps in read for dump in _own(dumps, path in numbers)]
    processes = Counter(path for path, _ in rows)
    found = []
    for path, dump in rows:
        thread = dump.main_thread
        if thread is None or not thread.frames:
            continue
        rank = dump.rank if dump.rank is not None else numbers.get(path)
        if rank is None and (told := _TOLD.search(dump.command or "")) is not None:
            rank = int(told["rank"])
        rank = ranks.get(dump.pid or 0) if rank is None else rank
        host = dump.host or _host(path)
        words = f"rank {rank}" if rank is not None else _stem(path)
        if rank is None and processes[path] > 1:
            words = f"pid {dump.pid}" if dump.pid else f"thread {thread.tid:#x}"
        found.append(
            RankStack(
                label=f"{host} {words}" if host and dump.rank is None else words,
                rank=rank,
                host=host,
                where=path,
                thread=thread,
                tool=dump.tool,
                is_running=thread.tid in dump.running if dump.tells_running else None,
                goes_on=dump.goes_on,
                pid=dump.pid,
            )
        )
    return found


def fetching_workers(files: Iterable[tuple[str, list[StackDump]]]) -> list[RankStack]:
    """Return the stacks of DataLoaders' workers that are at work on a sample."""
    return [
        RankStack(f"DataLoader worker {dump.pid}", None, None, path, thread, dump.tool)
        for path, dumps in files
        for dump in dumps
        if (thread := dump.main_thread) is not None
        and any(f.file is not None and _FETCH_FILE.search(f.file) for f in thread.frames)
    ]


def _own(dumps: list[StackDump], is_of_one: bool) -> list[StackDump]:
    """Return the dumps of ranks among those of one file, which may say whose it is."""
    ranks = [dump for dump in dumps if dump.rank is not None]
    if ranks:
        return ranks
    those = [dump for dump in dumps if not _serves(dump)] or dumps
    pids = {dump.pid for dump in those}
    if is_of_one or None in pids:
        # Who names no process shows its threads: those of two processes differ.
        mains = {dump.main_thread.tid: dump for dump in those if dump.main_thread is not None}
        several = not is_of_one and pids == {None} and len(mains) > 1
        return [*mains.values()] if several else those[:1]
    # Of one process dumped again and again all are kept: whoever moves is not stuck.
    return [dump for dump in those if dump.parent not in pids]


def _serves(dump: StackDump) -> bool:
    """Whether a process is a launcher, a DataLoader's worker or one of multiprocessing's own."""
    command = dump.command or ""
    if _AGENT.search(command) or _SERVANT.search(command):
        return True
    thread = dump.main_thread
    frames = thread.frames if thread is not None else ()
    return any(f.file is not None and _WORKER_FILE.search(f.file) for f in frames)


def _numbers(paths: list[str]) -> dict[str, int]:
    named = {path: found for path in paths if (found := _named(path)) is not None}
    if named:
        return named
    last = {path: int(m["rank"]) for path in paths if (m := _NUMBER.search(_stem(path)))}
    last = last or {path: int(m["rank"]) for path in paths if (m := _ELASTIC.search(path))}
    # One number for each file: else they are dates, pids or samples, or attempts and nodes.
    return last if len(set(last.values())) == len(paths) else {}


def _stem(path: str) -> str:
    """Return the name of a file without its suffix, where that is no number: ``stack.3``."""
    pure = PurePath(path)
    return pure.name if _DIGIT.search(pure.suffix) else pure.stem


def _named(path: str) -> int | None:
    for part in (_stem(path), PurePath(path).parent.name):
        found = _RANK.search(part)
        if found is not None:
            return int(found["rank"])
    return None


def _host(path: str) -> str | None:
    for part in (_stem(path), PurePath(path).parent.name):
        found = _NODE.search(part)
        if found is not None:
            return found["host"]
    return None
