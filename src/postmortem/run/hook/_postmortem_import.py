"""Does something to a module as soon as the program has imported it."""

from __future__ import annotations

import sys


def on_import(name, hook):
    """Call `hook` with a module: now, or at the end of its import."""
    if name in sys.modules:
        hook(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, hook))


class _Finder:
    """Lets others find one module, and goes away."""

    def __init__(self, name, hook):
        self._name = name
        self._hook = hook

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    self._hook_after(spec.loader)
                return spec
        return None

    def _hook_after(self, loader):
        load = loader.exec_module

        def exec_module(module):
            load(module)
            self._hook(module)

        loader.exec_module = exec_module
