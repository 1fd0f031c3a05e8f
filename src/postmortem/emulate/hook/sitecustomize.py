# What `postmortem emulate nan` puts first on PYTHONPATH; every Python of the tree imports it at its
# start. It waits for PyTorch, and makes room for the user's own module of the same name. Any Python
# may meet it, so this file is written for the oldest.
import os
import sys


def _begin():
    here = os.path.dirname(os.path.abspath(__file__))
    wanted = os.environ.get("POSTMORTEM_EMULATE_NAN")
    try:
        if wanted and sys.version_info >= (3, 8):
            import _postmortem_nan

            _postmortem_nan.install(wanted)
    except Exception:
        if os.environ.get("POSTMORTEM_DEBUG", "0") not in ("", "0"):
            raise
    finally:
        # Only children need the entry: they have it from PYTHONPATH.
        sys.path[:] = [one for one in sys.path if one != here]


_begin()

sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401
