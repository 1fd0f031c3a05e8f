"""Values of a program in a few words: shapes and types, short texts, no secrets."""

from __future__ import annotations

import sys

_MOST_LOCALS = 64
_LONGEST_TEXT = 200
_SECRET = (
    "token secret passw passphrase apikey api_key credential private_key access_key auth cookie "
    "session_key bearer"
).split()


def local_values(frame):
    """Return the locals of a frame in words, by name."""
    rows = {}
    for name, value in list(frame.f_locals.items()):
        if len(rows) >= _MOST_LOCALS:
            break
        if name.startswith("__") or type(value).__name__ in ("module", "function", "type"):
            continue
        try:
            rows[str(name)] = _described(name, value)
        except Exception as error:
            rows[str(name)] = "<%s>" % type(error).__name__
    return rows


def _described(name, value, depth=0):
    """Return a value in words; no code of the program is run for it."""
    if any(word in str(name).lower() for word in _SECRET):
        return "[masked]"
    kind = type(value)
    if value is None or kind in (bool, int, float, complex):
        return repr(value)[:_LONGEST_TEXT]
    if kind in (str, bytes):
        short = value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT]
        more = "" if len(value) <= _LONGEST_TEXT else " … (%d in all)" % len(value)
        return repr(short) + more
    tensor = _tensor(value)
    if tensor is not None:
        return tensor
    if kind in (list, tuple, set, frozenset, dict) and depth < 2:
        return _container(value, kind, depth)
    return "%s.%s object" % (kind.__module__, kind.__qualname__)


def _container(value, kind, depth):
    size = len(value)
    if kind is dict:
        parts = [
            "%s: %s" % (_described("", key, depth + 1), _described(key, item, depth + 1))
            for key, item in list(value.items())[:6]
        ]
    else:
        parts = [_described("", item, depth + 1) for item in list(value)[:6]]
    inside = ", ".join(parts) + (", …" if size > 6 else "")
    return (
        "%s of %d: %s" % (kind.__name__, size, inside[:400])
        if size
        else "%s, empty" % (kind.__name__)
    )


def _tensor(value):
    """Return shape, dtype and device of a tensor or array; its values are not looked at."""
    torch = sys.modules.get("torch")
    kind = type(value)
    if torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            words = [kind.__name__, "shape %s" % (tuple(value.shape),), str(value.dtype)]
            words.append(str(value.device))
            if value.requires_grad:
                words.append("requires_grad")
        return ", ".join(words)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return "ndarray, shape %s, %s" % (value.shape, value.dtype)
    return None
