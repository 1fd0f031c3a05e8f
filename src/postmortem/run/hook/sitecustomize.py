# What `postmortem run` puts first on PYTHONPATH; every Python of the tree imports it at its start.
# It says nothing, changes nothing that the program sees, and goes on to the user's own module of
# the same name. Any Python may meet it, so this file is written for the oldest.
import sys


def _begin():
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.environ.get("POSTMORTEM_RUN")
    try:
        if folder and sys.version_info >= (3, 8):
            import _postmortem_hook

            _postmortem_hook.install(folder)
    except Exception:
        if os.environ.get("POSTMORTEM_DEBUG", "0") not in ("", "0"):
            raise
    finally:
        # Only children need the entry: they have it from PYTHONPATH.
        sys.path[:] = [one for one in sys.path if one != here]
    if sys.version_info < (3, 4):
        return
    # The user's own comes next, as if this one had never been there.
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_begin()
