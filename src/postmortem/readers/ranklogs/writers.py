"""From prefixes to processes: which labels of which files are the same rank."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.facts.exits import LogExit
from postmortem.facts.rank_logs import Writer
from postmortem.readers.ranklogs.log_names import LogFile
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._native import RawRankLabel


@record
class Label:
    """One writer of one file, as its prefixes and the file's name have it."""

    file: LogFile
    raw: RawRankLabel

    @property
    def host(self) -> str | None:
        return self.raw["host"] or _pod(self.raw["pod"]) or self.file.host

    @property
    def local(self) -> int | None:
        return self.raw["local"] if self.raw["local"] is not None else self.file.local_rank

    @property
    def nameless(self) -> bool:
        """Nothing says who wrote it: it may be a launcher, or all ranks."""
        raw = self.raw
        named = (raw["rank"], raw["local"], raw["task"], raw["pid"], raw["pod"])
        return (
            all(value is None for value in named)
            and not raw["host"]
            and self.file.rank is None
            and self.file.local_rank is None
        )


def _pod(pod: str | None) -> str | None:
    if pod is None:
        return None
    parts = pod.split("/")
    return parts[1] if len(parts) > 1 else pod


def _node(label: Label) -> object:
    """What local ranks are counted in: a host, or where no host is known a task of srun."""
    if label.host not in (None, "default"):
        return label.host
    return label.raw["task"] if label.raw["local"] is not None else None


def _tasks_are_nodes(labels: list[Label], exits: list[tuple[Label, LogExit]]) -> bool:
    """Return whether a task of srun is a launcher with ranks of its own, and no rank.

    ``0: [rank0]: `` is what torch writes of a task that is a rank, and of the first of a node.
    """
    tasks = [x.raw for x in labels if x.raw["task"] is not None]
    if any(raw["local"] is not None for raw in tasks):
        return True
    pairs = {(raw["task"], raw["rank"]) for raw in tasks if raw["rank"] is not None}
    if not pairs or any(task != rank for task, rank in pairs):
        return bool(pairs)
    return pairs == {(0, 0)} and any(end.launcher == "torchrun" for _, end in exits)


class Writers:
    """All writers of all files, told apart as well as can be."""

    def __init__(self, labels: list[Label], exits: list[tuple[Label, LogExit]]) -> None:
        self.writers: list[Writer] = []
        self._of: dict[int, int] = {}
        self._names: dict[str, int] = {}
        self._labels = labels
        self.tasks_are_nodes = _tasks_are_nodes(labels, exits)
        self._global: dict[tuple[object, int], int] = {}
        nodes = {_node(x) for x in labels if x.local is not None}
        nodes |= {x.host for x in labels if x.raw["rank"] is not None}
        self._nodes = nodes - {None, "default"}
        for label in labels:
            if label.raw["rank"] is not None and label.local is not None:
                self._global[_node(label), label.local] = label.raw["rank"]
        for label, end in exits:
            if end.rank is not None and end.local_rank is not None and end.launcher == "torchrun":
                for node in self._agent_nodes(label):
                    self._global.setdefault((node, end.local_rank), end.rank)
        self._of_tasks: dict[int, str] = {}
        """Hosts of ranks that srun names."""
        for _, end in exits:
            host = end.host if end.launcher == "srun" and "[" not in (end.host or "") else None
            if end.rank is not None and host is not None:
                self._of_tasks.setdefault(end.rank, host)
        self._join()

    def _agent_nodes(self, label: Label) -> list[object]:
        """The nodes whose ranks an agent that wrote under a label may speak of."""
        if label.host is not None:
            return [label.host]
        task = label.raw["task"]
        if task is not None:
            hosts = {x.host for x in self._labels if x.raw["task"] == task and x.host}
            return [task, *hosts]
        same = {_node(x) for x in self._labels if x.file.path == label.file.path}
        hosts_here = same - {None}
        if len(hosts_here) <= 1 and len(self._nodes) <= 1:
            return [None, "default", *hosts_here, *self._nodes]
        return list(hosts_here) if len(hosts_here) == 1 else []

    def named(self, new: Writer) -> int:
        """Return the writer with a label; it is added where nobody has it."""
        for index, writer in enumerate(self.writers):
            if writer.label == new.label:
                return index
        return self._added(new)

    def of_name(self, name: str) -> int:
        """Return the first writer whose label begins with a name; it may have written nothing."""
        for index in range(len(self.writers) - 1 if not self._names else -1, -1, -1):
            self._names[self.writers[index].label.partition(" ")[0]] = index
        if name not in self._names:
            self._names[name] = self._added(Writer(name))
        return self._names[name]

    def of_process(self, name: str, pid: int, host: str | None) -> int:
        """Return the writer that a process of Ray is, which may have written nothing itself."""
        for position, label in enumerate(self._labels):
            if label.raw["pid"] == pid and (not label.host or label.host == host):
                return self.index(position)
        words = f"{name} pid={pid}" + (f" ip={host}" if host else "")
        return self.named(Writer(words, None, None, host))

    def of_rank(self, rank: int, path: str) -> int:
        """Return the writer that a rank is, which may have written nothing itself."""
        for index, writer in enumerate(self.writers):
            if writer.rank == rank:
                return index
        return self._added(Writer(str(rank), rank, source=path))

    def beside(self, file: LogFile) -> int:
        """Return whose error file it is: who wrote in its folder, else its local rank."""
        near = str(Path(file.path).parent)
        for position, label in enumerate(self._labels):
            if str(Path(label.file.path).parent) == near:
                return self.index(position)
        for index, writer in enumerate(self.writers):
            same_host = file.host is None or writer.host == file.host
            if not writer.shared and writer.local_rank == file.local_rank and same_host:
                return index
        rank = file.rank if file.rank is not None else file.local_rank
        return self._added(Writer(str(rank), rank, file.local_rank, file.host, source=file.path))

    def _added(self, new: Writer) -> int:
        self.writers.append(new)
        return len(self.writers) - 1

    def index(self, position: int) -> int:
        """Return the index of the writer that a label belongs to."""
        return self._of[position]

    def rank_of(self, label: Label) -> int | None:
        """Return the rank that wrote under a label, if that is known."""
        raw = label.raw
        if raw["rank"] is not None:
            return raw["rank"]
        if raw["local"] is not None or (raw["task"] is None and label.local is not None):
            assert label.local is not None
            known = self._global.get((_node(label), label.local))
            if known is None and len(self._nodes) <= 1:
                ranks = [r for (_, local), r in self._global.items() if local == label.local]
                known = ranks[0] if ranks else label.local
            return known
        if raw["task"] is not None:
            return None if self.tasks_are_nodes else raw["task"]
        return label.file.rank

    def _join(self) -> None:
        keys: dict[object, int] = {}
        merged: dict[int, list[Label]] = defaultdict(list)
        for position, label in enumerate(self._labels):
            key = self._key(label)
            if key not in keys:
                keys[key] = len(keys)
            self._of[position] = keys[key]
            merged[keys[key]].append(label)
        hosts = self._hosts()
        for key, index in keys.items():
            self.writers.append(self._writer(key, merged[index], hosts))

    def _hosts(self) -> dict[int, str]:
        """Hosts of ranks, from any label that has both."""
        known: dict[int, str] = {}
        for label in self._labels:
            host = label.host
            if host not in (None, "default") and (rank := self.rank_of(label)) is not None:
                known.setdefault(rank, host)
        return known if self.tasks_are_nodes else {**self._of_tasks, **known}

    def _key(self, label: Label) -> object:
        rank = self.rank_of(label)
        if rank is not None:
            return ("rank", rank)
        raw = label.raw
        if label.nameless:
            return ("shared", label.file.path, raw["section"])
        if raw["worker"] is not None:
            return ("worker", raw["host"], raw["pid"])
        if label.local is not None:
            return ("local", _node(label), label.local, label.file.attempt)
        if raw["task"] is not None:
            return ("task", raw["task"])
        return ("host", label.host)

    def _writer(self, key: object, labels: list[Label], hosts: dict[int, str]) -> Writer:
        assert isinstance(key, tuple)
        first = labels[0]
        rank = key[1] if key[0] == "rank" else None
        host = hosts.get(rank) if isinstance(rank, int) else first.host
        host = None if host == "default" else host
        local = next((x.local for x in labels if x.local is not None), None)
        if key[0] == "shared":
            name = (first.raw["section"] or first.file.path).rsplit("/", 1)[-1]
        elif first.raw["worker"] is not None:
            name = f"{first.raw['worker']} pid={first.raw['pid']}" + (f" ip={host}" if host else "")
        elif key[0] == "task":
            name = f"task {key[1]}"
        elif host is not None and local is not None:
            name = f"{host}:{local}"
        elif rank is not None:
            name = str(rank)
        else:
            name = host or str(local)
        # Nodes' own lines, and launchers', may be those of all ranks there.
        shared = key[0] in ("shared", "host") or (key[0] == "task" and self.tasks_are_nodes)
        words = [word for x in labels for word in x.raw["last_words"]]
        return Writer(
            label=name,
            rank=rank if isinstance(rank, int) else None,
            local_rank=local,
            host=host,
            lines=sum(x.raw["lines"] for x in labels),
            shared=shared,
            last_words=tuple(words[-3:]),
            source=first.file.path,
        )
