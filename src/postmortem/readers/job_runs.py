"""Which logs of a folder are of different runs: a sweep, an array, jobs and their repetitions.

What one job's ranks write must stay together, so files are only taken apart where something proves
it: the manifests of our own runs, a folder of Hydra's, or for an attempt, a job's number or a start
time in the name, two summaries of torchrun that give one rank different processes, a file begun
after a like one had ended, in name or by its first line behind such a summary. So it is, after
hours, with logs of different folders that begin alike, or have one name, and with a folder of old
ones. Folders called after days are runs where the logs of each begin anew, and others where each
has all ranks of its job, one behind the other. A log without times is another run's where its last
line came hours after a launcher had told how all ranks ended that it names.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

from postmortem.facts.inventory import LISTED, OF_RANKS, SET_ASIDE, Inventory, Kind, Run
from postmortem.patterns import Pattern
from postmortem.readers.bundles import Bundle, bundles
from postmortem.readers.log_clock import seconds_of, text_ends, times_in
from postmortem.readers.log_ends import (
    CERTAIN,
    COPIED,
    LONG,
    NUMBER,
    OF_RANK,
    Ends,
    are_apart,
    behind_copied,
    ends_of,
    one_by_one,
    outlives,
)
from postmortem.readers.ranklogs.log_names import names_a_rank
from postmortem.readers.run_folders import by_days, whole_jobs
from postmortem.readers.set_aside import above_all, copies, set_aside
from postmortem.records import replace

_HYDRA, _SWEEP = "/.hydra/", "/multirun.yaml"
_JOB = Pattern(
    r"^(?P<of>slurm|[A-Za-z][A-Za-z_]*(?=.*\.(?:out|err)$))[-_.]"
    r"(?P<job>(?<=slurm.)\d{3,12}|\d{4,12})(?:_(?P<task>\d{1,6}))?\.(?:out|err|log)$|"
    r"^(?P<pbs>.+)\.[oe](?P<number>\d{2,12})$"
)
_DATED = Pattern(
    r"(?<!\d)20\d\d[-_.]?[01]\d[-_.]?[0-3]\d[-_./T][0-2]\d[-_:.]?[0-5]\d[-_:.]?[0-5]\d(?!\d)"
)
_EXACT = Pattern(r"(?m)^.*\d\d:\d\d:\d\d[.,]\d{3}.*$")
_ATTEMPT = Pattern(r"/attempt_\d+/\d+/")
_TRIED = Pattern(r"(?i)^(?:attempt|(?:re)?(?:try|start|run)|trial)[-_. ]?\d{1,4}$")
_UNPACKED = Pattern(r"/postmortem-\w{8}/\d+(?=/)")
"""Where one of several archives was unpacked to."""
_TRIES = Pattern(r"(?i)(?:^|/)(?:attempt|(?:re)?try|restart)[-_. ]?#[^/]*$")
_ROTATED = Pattern(r"(?<=\.log)\.\d{1,3}$")
_TABLE = Pattern(r"(?i)\W*Job ?ID\b")
MOST_LOOKED_AT = 256
_TOGETHER = 30.0
"""Seconds between the times in names of what one run opened as it began."""


def runs_apart(found: Inventory) -> tuple[Run, ...]:
    """Return the runs in the order of their ends; none where nothing tells two of them apart."""
    every = [item.path for item in found.of(Kind.LOG, Kind.ERROR_FILE)]
    above, twice = above_all(every), copies(every)
    every = [path for path in every if path not in twice] if twice else every
    old = {path: folder for path in every if (folder := set_aside(path, above))}
    logs = [path for path in every if path not in old]
    groups, rest = _by_names(logs, [item.path for item in found.items])
    since: dict[str, float] = {}
    if len(groups) < 2:
        groups, rest = _by_days(logs, since)
    if len(groups) < 2:
        groups, rest = _by_content(logs, since)
    if len(groups) < 2:
        whole = whole_jobs(logs[:MOST_LOOKED_AT])
        groups = {(name, str(Path(name).parent), True): own for name, own in whole.items()}
        rest = [path for path in logs if all(path not in own for own in whole.values())]
    if len(groups) < 2:
        groups, rest = {}, logs
    if not logs or not (groups or old):
        return ()
    lists = [path for path in rest if _TABLE.match(text_ends(path)[0])] if groups else []
    rest = [path for path in rest if path not in lists]
    if rest:
        groups[(rest[0], "", False) if len(rest) == 1 else _REST] = rest
    before: dict[_Key, list[str]] = {(path, LISTED, False): [path] for path in lists}
    for path, folder in old.items():
        before.setdefault((folder, SET_ASIDE, False), []).append(path)
    both = ([_run(*one, since) for one in part.items()] for part in (before, groups))
    runs = [run for part in both for run in _of_copies(sorted(part, key=_order))]
    # What is no log, and lies in no run's folder, is the last run's, as far as anybody knows.
    beside: dict[str, list[str]] = {}
    held = twice.union(path for run in runs for path in run.paths)
    folders = folders_of(runs)
    for item in found.of(*OF_RANKS):
        if item.path not in held and (
            run := run_of(item.path, folders)
            or (runs[-1] if set_aside(item.path, above) is None else None)
        ):
            beside.setdefault(run.name, []).append(item.path)
    return tuple(replace(run, paths=(*run.paths, *beside.get(run.name, ()))) for run in runs)


def folders_of(runs: Sequence[Run]) -> dict[str, Run]:
    """Return the runs by their folders; what lies above other runs is no run's."""
    shared = {str(above) for run in runs for above in Path(run.name).parents}
    return {run.name: run for run in reversed(runs) if run.name not in shared}


def run_of(path: str, folders: Mapping[str, Run]) -> Run | None:
    """Return the run in whose folder a file lies."""
    return next(
        (folders[above] for above in map(str, Path(path).parents) if above in folders), None
    )


_Key = tuple[str, str, bool]
"""What a run is called, its series, and whether that is a sweep."""
_REST: _Key = ("the other logs", "", False)


def _by_names(logs: Sequence[str], paths: Sequence[str]) -> tuple[dict[_Key, list[str]], list[str]]:
    folders: set[str] = set()
    sweeps: set[str] = set()
    for path in paths:
        if _HYDRA in path:
            folders.add(path.partition(_HYDRA)[0])
        elif path.endswith(_SWEEP):
            sweeps.add(path.removesuffix(_SWEEP))
    groups: dict[_Key, list[str]] = {}
    ours = bundles(paths)
    bundled = _bundled(ours)
    dated: dict[str, list[tuple[float, str]]] = {}
    tried: dict[_Key, list[str]] = {}
    rest = []

    @cache
    def of_folder(folder: Path) -> tuple[_Key | None, str | None, str | None, str | None]:
        above = [str(folder), *map(str, folder.parents)]
        return (
            next((bundled[a] for a in above if a in bundled), None),
            next((a for a in above if str(Path(a).parent) in sweeps), None),
            next((a for a in above if a in folders), None),
            next((a for a in above if _TRIED.match(Path(a).name)), None),
        )

    for path in logs:
        bundle, swept, own, attempt = of_folder(Path(path).parent)
        job = None if names_a_rank(path) else _JOB.match(Path(path).name)
        date = next(reversed([*_DATED.finditer(path)]), None)
        if bundle is not None:
            groups.setdefault(bundle, []).append(path)
        elif swept is not None:
            parent = str(Path(swept).parent)
            groups.setdefault((swept, parent, True), []).append(path)
        elif date:
            series = str(Path(path[: date.start()]).parent)
            dated.setdefault(series, []).append((seconds_of(date[0]), path))
        elif own is not None:
            groups.setdefault((own, str(Path(own).parent), False), []).append(path)
        elif job:
            groups.setdefault(_of_job(path, job), []).append(path)
        elif attempt is not None and not _ATTEMPT.search(path):
            form = _form(_UNPACKED.sub("", attempt))
            tried.setdefault((attempt, form, False), []).append(path)
        else:
            rest.append(path)
    for series, found in dated.items():
        key: _Key = ("", "", False)
        until = float("-inf")
        for at, path in sorted(found):
            if at > until:
                key = (path, series, False)
            groups.setdefault(key, []).append(path)
            # Who began before another one's last line may be another rank of its job.
            until = max(until, at + _TOGETHER, *_stamps(path))
    if not rest and len({series for _, series, _ in tried}) == 1:
        groups |= tried
    else:  # a log beside them may be of the launcher that tried again, or they are of several jobs
        rest += [path for paths in tried.values() for path in paths]
    _join_copies(groups)
    _join_steps(groups)
    return groups, [path for path in rest if not _is_console(path, ours, bundled, groups)]


def _join_copies(groups: dict[_Key, list[str]]) -> None:
    """Join a run whose last line with a time stands in another one's log too: a tool copied that.

    Of a sweep none does: its runs may say the same at one time.
    """
    held: dict[str, _Key] = {}
    last: dict[_Key, list[str]] = {}
    for key, paths in groups.items():
        for path in () if key[2] else paths[:MOST_LOOKED_AT]:
            lines = _EXACT.findall(text_ends(path)[1])
            last.setdefault(key, []).extend(lines[-1:])
            held |= dict.fromkeys((line for line in lines if line not in held), key)
    for key, lines in last.items():
        other = next((held[line] for line in lines if held.get(line, key) != key), None)
        if other in groups:
            groups[other] += groups.pop(key)


def _join_steps(groups: dict[_Key, list[str]]) -> None:
    """Join the tasks of a step: one's log names the rank that it is, and no first one."""
    tasks = [key for key in groups if key[2]]
    steps = {key[1] for key in tasks if any(map(_is_of_rank, groups[key]))}
    for key in tasks:
        if key[1] in steps:
            folder, name = Path(key[1]).parent, Path(key[1]).name.rpartition("-")[0]
            job: _Key = (key[1], f"{folder / name}-", False)
            groups[job] = groups.pop(key) + groups.get(job, [])


def _is_of_rank(path: str) -> bool:
    job = _JOB.match(Path(path).name)
    head, tail, _ = text_ends(path) if job and job["task"] else ("", "", 0.0)
    ranks = {int(rank) for rank in OF_RANK.findall(head + tail)}
    return job is not None and 0 not in ranks and int(job["task"] or 0) in ranks


def _is_console(
    path: str, ours: Sequence[Bundle], bundled: dict[str, _Key], groups: dict[_Key, list[str]]
) -> bool:
    """Return whether one of our own runs ended as a log beside it did; that is then added to it."""
    if not ours:
        return False
    ended = ends_of(path).ended
    nearest = min(ours, key=lambda one: abs(one.ended - ended))
    if not nearest.began <= ended <= nearest.ended + _TOGETHER:
        return False
    groups.setdefault(bundled[nearest.folder], []).append(path)
    return True


def _bundled(ours: Iterable[Bundle]) -> dict[str, _Key]:
    """Return by folder of each of our own runs which job it is: its nodes ran at the same time."""
    keys: dict[str, _Key] = {}
    last: dict[str, tuple[_Key, float]] = {}
    for one in ours:
        key, until = last.get(one.job, (None, 0.0))
        if key is None or one.began > until:
            key = (one.folder, one.job, False)
        last[one.job] = key, max(until, one.ended)
        keys[one.folder] = key
    return keys


def _of_job(path: str, job: re.Match[str]) -> _Key:
    folder = Path(path).parent
    number, task = job["job"] or job["number"], job["task"]
    name = f"{job['of'] or job['pbs']}-{number}{'_' + task if task else ''}"
    series = f"{job['of'] or job['pbs']}-{number if task else ''}"
    return str(folder / name), str(folder / series), task is not None


def _by_content(
    logs: Sequence[str], since: dict[str, float]
) -> tuple[dict[_Key, list[str]], list[str]]:
    """Return the logs by run, and the others; `since` takes when logs without times began."""
    beside: dict[Path, list[str]] = {}
    for path in logs:
        if not names_a_rank(path) and not _ATTEMPT.search(path):
            beside.setdefault(Path(path).parent, []).append(path)
    apart: dict[str, _Key] = {}
    parted: set[tuple[str, str]] = set()
    ends = cache(ends_of)
    for paths in beside.values():
        if len(paths) < 2 or len(paths) > MOST_LOOKED_AT:
            continue
        for a, b in combinations(paths, 2):
            alike = _form(a) == _form(b)
            name, dot, _ = Path(a).name.partition(".")
            counted = bool(dot and _TRIED.match(name))
            pause = behind_copied(ends(a), ends(b), counted=counted) if alike else None
            one_behind = pause is not None or one_by_one(ends(a), ends(b), alike=alike)
            if one_behind:
                by = "ended" if pause is None else "times"
                first, then = sorted((a, b), key=lambda path: getattr(ends(path), by))
                least = ends(first).ended + (pause or CERTAIN)
                since[then] = max(since.get(then, 0.0), least)
            if one_behind or are_apart(ends(a), ends(b)):
                parted |= {(a, b), (b, a)}
                apart |= {path: (path, _form(_ROTATED.sub("", path)), False) for path in (a, b)}
    apart |= _numbered(apart, parted)
    held = [path for paths in beside.values() for path in paths]
    if not apart and len(beside) > 1 and len(held) <= MOST_LOOKED_AT:
        apart = _long_after({path: ends(path) for path in held}, since)
    groups: dict[_Key, list[str]] = {}
    for path in logs:
        groups.setdefault(apart.get(path, _REST), []).append(path)
    return groups, groups.pop(_REST, [])


def _by_days(
    logs: Sequence[str], since: dict[str, float]
) -> tuple[dict[_Key, list[str]], list[str]]:
    """Return the logs in folders called after days, and the others."""
    groups: dict[_Key, list[str]] = {}
    until = 0.0
    for folder, paths in by_days(logs[:MOST_LOOKED_AT]):
        since |= dict.fromkeys(paths if until else (), until + CERTAIN)
        groups[folder, str(Path(folder).parent), False] = paths
        until = max(until, *(ends_of(path).ended for path in paths))
    held = {path for paths in groups.values() for path in paths}
    return groups, [path for path in logs if path not in held]


def _numbered(apart: Iterable[str], parted: Collection[tuple[str, str]]) -> dict[str, _Key]:
    """Return the run of logs of which one number counts the runs, and another one their ranks."""
    found: dict[str, _Key] = {}
    forms: dict[str, list[str]] = {}
    for path in apart:
        forms.setdefault(_form(path), []).append(path)
    for form, paths in forms.items():
        above = len(form) - len(Path(form).name)
        for at in range(form.count("#", above)):
            runs: dict[str, list[str]] = {}
            for path in paths:
                end = [*NUMBER.finditer(path[above:])][at].end()
                runs.setdefault(path[: above + end], []).append(path)
            pairs = (pair for run in runs.values() for pair in combinations(run, 2))
            if 1 < len(runs) < len(paths) and not any(pair in parted for pair in pairs):
                found |= {path: (name, form, False) for name, run in runs.items() for path in run}
                break
    return found


def _long_after(ends: Mapping[str, Ends], since: dict[str, float]) -> dict[str, _Key]:
    """Return the run of each log of which something alike began elsewhere long after its end."""
    runs: list[list[str]] = []
    until = 0.0
    before: list[Ends] = []
    for path, one in sorted(ends.items(), key=lambda item: item[1].began or item[1].ended):
        late = not before or any(outlives(other, one) for other in before)
        began = one.ended if one.began is None and late else one.began
        before.append(one)
        if began is not None:
            if not runs or began > until + LONG:
                runs.append([])
                since[path] = until + CERTAIN
            runs[-1].append(path)
        until = max(until, one.ended)
    for earlier, later in pairwise(runs):
        if not any(_is_alike(a, b, ends) for a in earlier for b in later):
            return {}
    found: dict[str, _Key] = {}
    folders = [{Path(path).parent for path in run} for run in runs]
    for at, run in enumerate(runs if len(runs) > 1 else ()):
        first = Path(run[0])
        own = first if len(run) == 1 and NUMBER.search(first.name) else first.parent
        # Below the folder of a later one, it was set aside for that.
        over = (one for one in own.parents if any(one in there for there in folders[at + 1 :]))
        series = NUMBER.sub("#", next(over, own).name.partition(".")[0])
        key = (str(own), series, False)
        found |= {path: key for path in ends if path in run or Path(path).parent in folders[at]}
    return found


def _is_alike(a: str, b: str, ends: Mapping[str, Ends]) -> bool:
    """Return whether two logs in different folders have one name, or begin alike."""
    if Path(a).parent == Path(b).parent:
        return False
    return Path(a).name == Path(b).name or ends[a].first == ends[b].first


def _form(path: str) -> str:
    return str(Path(path).parent / NUMBER.sub("#", Path(path).name))


def _stamps(path: str) -> list[float]:
    head, tail, _ = text_ends(path)
    return [*times_in(head), *times_in(tail)] or [0.0]


def _run(key: _Key, paths: list[str], since: Mapping[str, float]) -> Run:
    name, series, sweep = key
    ends = {path: ends_of(path) for path in paths[:MOST_LOOKED_AT]}
    told = ((since.get(path), one.began) for path, one in ends.items())
    begins = [max(filter(None, one)) for one in told if any(one)]
    began = min(begins) if len(begins) == len(ends) else None
    ended = max(began or 0.0, *(one.ended for one in ends.values()))
    return Run(name, tuple(paths), series, sweep, began, ended)


def _of_copies(runs: Sequence[Run]) -> Sequence[Run]:
    """Return runs of one time, as copies have it, in the order in which tries are numbered."""
    copied = runs and max(r.ended for r in runs) - min(r.ended for r in runs) < COPIED
    if copied and len({r.series for r in runs}) == 1 and _TRIES.search(runs[0].series):
        return [replace(run, began=float(at), ended=float(at)) for at, run in enumerate(runs)]
    return runs


def _order(run: Run) -> tuple[int, bool, list[int], str]:
    """Return a key: by the minute of the end; copies have one time, and numbers that grow."""
    numbers = list(map(int, NUMBER.findall(run.name)))
    return int(run.ended // 60), not run.series, numbers, run.name
