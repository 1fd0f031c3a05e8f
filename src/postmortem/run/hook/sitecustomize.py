# `run` and `emulate` put it first on PYTHONPATH; every Python of the tree imports it at its start.
# It says nothing, changes nothing that the program sees, and makes room for the user's own module
# of the same name. Any Python may meet it, so this file is written for the oldest.
import os
import sys

_PARTS = (
    ("POSTMORTEM_RUN", "_postmortem_hook"),
    ("POSTMORTEM_EMULATE_NAN", "_postmortem_nan"),
    ("POSTMORTEM_NUMERICS", "_postmortem_numerics"),
)


def _begin():
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        for name, module in _PARTS:
            words = os.environ.get(name)
            if words and sys.version_info >= (3, 8):
                __import__(module).install(words)
    except Exception:
        if os.environ.get("POSTMORTEM_DEBUG", "0") not in ("", "0"):
            raise
    finally:
        # Only children need the entry: they have it from PYTHONPATH.
        sys.path[:] = [one for one in sys.path if one != here]


_begin()

# The user's own comes next, as if this one had never been there: where there is none, site hears
# that there is none.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401
