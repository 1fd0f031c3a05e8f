"""Workers that a supervisor loses again and again: it lives on, and their work never ends."""

from collections.abc import Sequence

from postmortem.readers.ranklogs.last_words import Ids, done, survived

WORKER = "last-lost-worker"
"""How ids begin of what a supervisor says of its worker's end."""
_ERRORS = {"last-lost-worker": "last-error-died", "last-lost-worker-limit": "last-error-memory"}
_AGAIN = 3


def lost_again(ids: Sequence[Ids]) -> list[Ids]:
    """Return the ids of lines, the end of a worker an error where workers were lost to the end.

    That is several times in the same words, and neither work nor its end stands between or behind.
    """
    since = next((at for at in range(len(ids), 0, -1) if _goes_on(ids[at - 1])), 0)
    said = [name for names in ids[since:] for name in names if name in _ERRORS]
    if not any(said.count(name) >= _AGAIN for name in _ERRORS):
        return [*ids]
    late = ((*(_ERRORS[name] for name in row if name in _ERRORS), *row) for row in ids[since:])
    return [*ids[:since], *late]


def _goes_on(names: Ids) -> bool:
    return survived(names) or done(names, last=False)
