"""What a scheduler, a cloud or a tracker keeps of a job as JSON or YAML: a line for each job.

docker inspect, sacct --json, aws batch describe-jobs, ecs describe-tasks and sagemaker
describe-training-job, gcloud ai custom-jobs describe, az ml job show, ray job list, jobs of
Databricks, runs of GitHub, MLflow's meta.yaml: they name the same things, in ways that differ
little.
"""

import json
import re
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, TypeAlias

from postmortem.readers.codecs import StreamError
from postmortem.readers.log_heads import plain_pieces
from postmortem.readers.regular import size_of

_Fields: TypeAlias = Mapping[str, Any]
_Told: TypeAlias = tuple[str, str, bool]
"""The word on the state of a job, the line that is told of it, and whether it failed."""
_OF_STATE = ("conclusion", "status", "state", "phase", "current")
"""How the names of fields end that say how a job is; `current` is sacct's, below `state`."""
_OF_CODE = ("exitcode", "exitstatus", "returncode", "number")
_OF_NAME = ("name", "jobid", "submissionid", "runid", "taskarn", "id")
_TOP = ((), ("metadata",))
"""Where the name of a job stands: at its top, or, of an object of Kubernetes, below this."""
_OF_REASON = ("reason", "message", "error", "stopcode")
_OF_TIME = re.compile(r"(?:creat|start|stop|end|finish|submi)\w*(?:at|time|date)$|time start$")
"""Fields with the times of a job; results of tests have how long they took."""
_NO_JOB = ("health", "agent", "connectivity", "provisioning", "desired")
_BAD = (
    *("fail", "error", "crash", "kill", "abort", "out_of_memory", "node_fail", "timed_out"),
    *("timeout", "cancel", "preempt", "evict", "dead"),
)
_OVER = ("exited", "stopped", "terminated", "completed", "inactive")
"""Words that say that a job is over, and not how."""
_GOOD = ("SUCCEEDED", "SUCCESS", "SUCCESSFUL", "COMPLETED", "FINISHED")
_OF_MLFLOW = {"3": "FINISHED", "4": "FAILED", "5": "KILLED"}
"""mlflow.entities.RunStatus"""
_CODE_ALONE = re.compile(rb"\s*(\d{1,3})\s*")
_OF_EXIT = re.compile(r"(?i)\.?(?:exit[_-]?(?:code|status)|rc|return[_-]?code)(?:\.txt)?")
_BEGINS = re.compile(rb"\s*[\[{]")
_MLFLOW = re.compile(rb"(?m)^run_id: ")
_STATED = re.compile(rb'"\w*(?:[Ss]tatus|[Ss]tate|STATE|conclusion|phase|OOMKilled)"\s*:')
_FIELD = re.compile(r"([A-Za-z_]\w*): *(.*)")
_DEEPEST, _MOST_JOBS, _MOST_TEXT = 8, 1000, 1000
_LARGEST = 512 << 10


def holds_records(path: str, head: bytes) -> bool:
    """Return whether a file that begins with `head` records a job, or several of the same fate."""
    try:
        small = may_hold_records(head) and size_of(path) <= _LARGEST
        return small and records_told(b"".join(plain_pieces(path))) is not None
    except (OSError, StreamError):
        return False


def code_told(name: str, head: bytes) -> bytes | None:
    """Return what a file tells that holds a program's exit code alone, and is named for it."""
    code = _CODE_ALONE.fullmatch(head)
    named = _OF_EXIT.fullmatch(name.rpartition("/")[2])
    return b"job: state ENDED (exit code %d)\n" % int(code[1]) if code and named else None


def may_hold_records(head: bytes) -> bool:
    """Return whether a file begins as a record of a job may."""
    return bool(
        (_BEGINS.match(head) and _STATED.search(head))
        or (b"run_id: " in head and _MLFLOW.search(head))
    )


def records_told(data: bytes) -> bytes | None:
    """Return a line for each job, where its state stands; None where a text is no such record."""
    text = data.decode("utf-8", "replace")
    try:
        found = [*_jobs(json.loads(text) if _BEGINS.match(data) else _of_mlflow(text), _DEEPEST)]
    except (ValueError, RecursionError):
        return None
    if len({failed for _, _, failed in found}) > 1:
        return None  # a list of many jobs: which of them is meant is not known
    lines: list[str] = []
    at = 0
    for word, told, _ in found:
        at = max(text.find(f'"{word}"', at), at)
        lines += [""] * (text.count("\n", 0, at) - len(lines))
        lines.append(told)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace") or None


def _of_mlflow(text: str) -> _Fields:
    fields = {one[1]: one[2].strip("'\" ") for one in map(_FIELD.match, text.splitlines()) if one}
    return fields | {"status": _OF_MLFLOW.get(fields.get("status", ""), "RUNNING")}


def _jobs(value: object, deep: int) -> Iterator[_Told]:
    """Yield what is told of each job that is none of a job's parts."""
    if isinstance(value, list):
        for one in value[:_MOST_JOBS]:
            yield from _jobs(one, deep - 1) if deep else ()
    elif isinstance(value, dict):
        told = _job(value) if _has_state(value) else None
        if told is not None:
            yield told
            return
        for one in value.values():
            yield from _jobs(one, deep - 1) if deep else ()


def _job(fields: _Fields) -> _Told | None:
    flat = [*_flat(fields, ())]
    states = [(len(p), one) for p, one in flat if isinstance(one, str) and _is_state(p)]
    words = [one for deep, one in states if deep == min(states)[0]]
    codes = [(len(path), one) for path, one in flat if _is_code(path, one)]
    code = min(codes, key=itemgetter(0))[1] if codes else None
    high = [(path[-1], str(one)) for path, one in flat if path[:-1] in _TOP]
    names = [one for end in _OF_NAME for name, one in high if name.endswith(end)]
    if (
        not words
        or not names
        or (code is None and not any(_OF_TIME.search(" ".join(p[-2:])) for p, _ in flat))
    ):
        return None
    memory = any(path[-1] == "oomkilled" and one is True for path, one in flat)
    over = next((word for word in words if word.lower().startswith(_OVER)), None)
    bad = next((word for word in words if _is_bad(word)), None)
    if bad is None and over is not None:  # of its parts
        bad = next((word for _, word in states if _is_bad(word)), None)
    state = (bad or words[0]).upper().removeprefix("JOB_STATE_")
    if over is not None and bad is None and (code is not None or memory):
        state = "FAILED" if code or memory else "COMPLETED"
    failed = bad is not None or state == "FAILED"
    said = dict.fromkeys(one for path, one in flat if failed and _is_reason(path, one))
    why = "; ".join(["OOMKilled"] * memory + [one for one in said if one not in words])
    name = next((one for one in names if "/" not in one.strip("/")), names[0]).strip("/")
    ended = "" if code is None or (failed and not code) else f" (exit code {code})"
    word = bad or over or words[0]
    return word, line_of(name, f"{state}{ended}", why, good=not failed and state in _GOOD), failed


def line_of(name: str, state: str, why: str, *, good: bool) -> str:
    """Return what is told of one job: the form that `record-ended` and `record-stopped` know."""
    well = " completed successfully" if good else ""
    line = f"job {name}{well}: state {state}{': ' if why else ''}{why}"
    return " ".join(line.split())[:_MOST_TEXT]


def _has_state(fields: _Fields) -> bool:
    """Return whether an object has a state of its own, or below a name, and not in a list."""
    below = (one for one in fields.values() if isinstance(one, dict))
    rows = (row for one in (fields, *below) for row in one.items())
    return any(_is_state((_plain(key),)) for key, one in rows if not isinstance(one, dict))


def _plain(key: object) -> str:
    """Return a name without case and what parts its words."""
    return str(key).lower().replace("_", "").replace("-", "")


def _flat(
    value: object, path: tuple[str, ...], deep: int = _DEEPEST
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what an object holds with the names above it, plain."""
    if isinstance(value, dict) and deep:
        for key, one in value.items():
            yield from _flat(one, (*path, _plain(key)), deep - 1)
    elif isinstance(value, list) and deep:
        for one in value:
            yield from _flat(one, path, deep - 1)
    elif path:
        yield path, value


def _is_bad(word: str) -> bool:
    return word.lower().removeprefix("job_state_").startswith(_BAD)


def _is_state(path: tuple[str, ...]) -> bool:
    return path[-1].endswith(_OF_STATE) and not path[-1].startswith(_NO_JOB)


def _is_code(path: tuple[str, ...], value: object) -> bool:
    within = path[-1] != "number" or "returncode" in path
    return (
        path[-1] in _OF_CODE and within and isinstance(value, int) and not isinstance(value, bool)
    )


def _is_reason(path: tuple[str, ...], value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and path[-1].endswith(_OF_REASON)
