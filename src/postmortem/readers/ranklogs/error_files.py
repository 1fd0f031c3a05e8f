"""What torchelastic's @record writes for a rank that failed, and its summary quotes of one."""

import json
from collections.abc import Iterable, Iterator

from postmortem.facts.rank_logs import ExceptionText, LogFailure
from postmortem.readers.ranklogs.demux import Demuxer
from postmortem.readers.ranklogs.lines import shape_of
from postmortem.readers.ranklogs.log_names import LogFile
from postmortem.readers.regular import open_regular
from postmortem.records import replace

_LARGEST_ERROR_JSON = 4 << 20


def read_error_file(file: LogFile) -> LogFailure | None:
    """Return what torchelastic's @record wrote when a rank failed; None if it cannot be read.

    Written by torch/distributed/elastic/multiprocessing/errors/error_handler.py.
    """
    try:
        with open_regular(file.path) as stream:
            data = json.loads(stream.read(_LARGEST_ERROR_JSON))
        message = data["message"]
        if isinstance(message, str):
            return LogFailure(
                "exception", _said(message), 0, file.path, 1, text=message, source="error.json"
            )
        extra = message.get("extraInfo") or {}
        stack = str(extra.get("py_callstack") or "")
        demuxer = Demuxer()
        demuxer.take(shape_of(i, i, text) for i, text in enumerate(stack.split("\n"), 1))
        made = demuxer.finish()
        when = str(extra.get("timestamp") or "")
        said = _said(str(message.get("message") or ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    last = made[-1] if made else None
    return LogFailure(
        "exception",
        said if last is None or not last.said.exception else last.said,
        0,
        file.path,
        1,
        frames=() if last is None else last.frames,
        causes=() if last is None else last.causes,
        text=stack.rstrip() or str(message.get("message") or ""),
        time=float(when) if when.replace(".", "", 1).isdecimal() else None,
        source="error.json",
    )


def _said(message: str) -> ExceptionText:
    line = shape_of(1, 1, message.split("\n", 1)[0])
    if line.exception is None:
        return ExceptionText("Exception", message)
    return ExceptionText(line.exception, line.message)


def quoted_failure(path: str, line: int, lines: Iterable[str], writer: int) -> Iterator[LogFailure]:
    """Yield the traceback that torchelastic's summary quotes from a line on."""
    demuxer = Demuxer()
    demuxer.take(shape_of(line + i, i + 1, text) for i, text in enumerate(lines))
    for traceback in demuxer.finish()[-1:]:
        made = traceback.failure(writer, path)
        yield replace(made, kind="exception", parts=(), begin_line=line, source="summary")
