"""What tests wrote that passed: a runner of tests tells of each how it fared, and of all at last.

A test that passes may start what crashes, log errors and print tracebacks: it asked for them. What
tests write that run side by side is told apart by the last word alone, if that is good.
"""

import re

from postmortem.records import record

_AT = rb"^(?:\d[\dTZ:.,+-]* )?(?:"
"""The begin of a line, of a CI's log too."""


@record
class _Runner:
    words: tuple[bytes, ...]
    """Without one of them a text has nothing of its kind."""
    begins: bytes
    """How a line begins with which a run of tests does."""
    passed: bytes
    """A line by which a test is told to have passed, skipped, or failed as it should."""
    failed: bytes
    well: bytes
    """The last word of a runner, if no test failed."""
    badly: bytes
    beside: tuple[bytes, ...] = ()
    """What tells that tests run side by side."""
    each: bool = False
    """Each test begins so, not the run."""


_RUNNERS = (
    _Runner(
        (b" test session starts =",),
        rb"=+ test session starts =+$",
        rb"(?:\S+::.* )?(?:PASSED|XFAIL|SKIPPED|XPASS)(?: \(.*\))?(?: +\[ *\d+%\])?$",
        rb"(?:\S+::.* )?(?:FAILED|ERROR)(?: +\[ *\d+%\])?$",
        rb"=* ?[1-9]\d* passed"
        rb"(?:, \d+ (?:skipped|deselected|x?passed|xfailed|warnings?))* in \d.*$",
        rb"=+ (?:FAILURES|ERRORS|short test summary info|.*\b\d+ (?:failed|errors?)\b.*) =+$",
        (b"\n[gw",),
    ),
    _Runner(
        (b"\nRan ",),
        rb"test\w* \([\w.]+\)",
        rb"(?:.* \.\.\. )?(?:ok|expected failure|skipped .*)$",
        rb"(?:.* \.\.\. )?(?:FAIL|ERROR|unexpected success)$",
        rb"Ran \d+ tests? in .*\n\s*OK\b.*$",
        rb"Ran \d+ tests? in .*\n\s*FAILED\b.*$",
        each=True,
    ),
    _Runner(
        (b"\ntest result: ",),
        rb"running \d+ tests?$",
        rb"(?!)",
        rb"(?!)",
        rb"(?:test result: ok\. .*|failures:\n\n---- \S+ stdout ----)$",
        rb"test result: FAILED\. .*$",
    ),
    _Runner(
        (b"Test project ",),
        rb"Test project /.*$",
        rb" *\d+/\d+ Test +#\d+: .* Passed +[\d.]+ sec$",
        rb" *\d+/\d+ Test +#\d+: .*$",
        rb"100% tests passed, 0 tests failed out of \d+$",
        rb"\d+% tests passed, \d+ tests? failed out of \d+$",
    ),
    _Runner(
        (b"[ RUN      ] ",),
        rb"\[==========\] Running \d+ tests? .*$",
        rb"\[ +(?:OK|SKIPPED) +\] \S+.*$",
        rb"\[ +FAILED +\] \S+.*$",
        rb"\[  PASSED  \] \d+ tests?\.$",
        rb"\[  FAILED  \] \d+ tests?, listed below:$",
    ),
    _Runner(
        (b"=== RUN   ",),
        rb"=== RUN   \S+$",
        rb" *--- (?:PASS|SKIP): .*$",
        rb" *--- FAIL: .*$",
        rb"ok  \t\S+\t.*$",
        rb"FAIL\b.*$",
        (b"\n=== PAUSE ",),
        each=True,
    ),
)


def without_passed(data: bytes) -> bytes:
    """Return a text, the lines left empty that tests wrote which passed."""
    for runner in _RUNNERS:
        if any(word in data for word in runner.words):
            data = _without_spans(data, _spans(data, runner))
    return data


def _spans(data: bytes, runner: _Runner) -> list[tuple[int, int]]:
    kinds = ("well", "badly", "passed", "failed", "begins")
    parts = (rb"(?P<%s>%s)" % (kind.encode(), getattr(runner, kind)) for kind in kinds)
    marks = re.compile(_AT + b"|".join(parts) + b")", re.MULTILINE)
    begins = re.compile(_AT + runner.begins + b")")
    beside = any(sign in data for sign in runner.beside)
    found: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    begin = since = -1
    mixed = False
    for mark in marks.finditer(data):
        kind, start = mark.lastgroup, mark.start()
        end = data.find(b"\n", mark.end()) + 1 or len(data)
        first = begin < 0
        if kind == "begins" or (first and runner.each and begins.match(data, start)):
            mixed = mixed or not (first or runner.each)  # runs that share a file
            since = since if not first else start if runner.each else end
            begin = since if first else begin
        if begin < 0 or kind == "begins":
            continue
        if kind == "passed" and not beside:
            run.append((since, start))
        elif kind in ("well", "badly"):
            whole = kind == "well" and not mixed
            found += [(begin, start)] if whole else [] if mixed else run
            run, begin, mixed = [], -1, False
        since = end
    return found if begin < 0 or mixed else found + run


def _without_spans(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    kept, at = [], 0
    for begin, end in sorted(spans):
        if begin >= at:
            kept += [data[at:begin], b"\n" * data.count(b"\n", begin, end)]
            at = end
    return b"".join([*kept, data[at:]]) if spans else data
