"""Has the numerics monitor watch the first model that trains, without a line in the program.

Of a Python that has no postmortem nothing is watched; whoever asked for it finds no flight file.
"""

from __future__ import annotations

import sys

from _postmortem_import import on_import


def install(folder):
    """Wait for PyTorch; flight files go to `folder`."""
    on_import("torch.nn.modules.module", lambda modules: _wait(modules.Module, folder))


def _wait(module_class, folder):
    """Watch the first module that is called to train: no other one is called around it."""
    original = module_class.__call__

    def call(module, *args, **kwargs):
        if module.training and _learns(module):
            module_class.__call__ = original
            _watch(module, folder)
        return original(module, *args, **kwargs)

    module_class.__call__ = call


def _learns(module):
    import torch

    return torch.is_grad_enabled() and any(one.requires_grad for one in module.parameters())


def _watch(model, folder):
    try:
        from postmortem.monitor.watch import NumericsMonitor
    except ImportError:
        return
    hooks = (hook for one in model.modules() for hook in one._forward_hooks.values())
    if any(type(hook).__module__.startswith("postmortem.") for hook in hooks):
        return  # by the program itself, or by a callback
    import atexit

    # Without a word to other ranks: they may have nothing to watch, and would be waited for.
    monitor = NumericsMonitor(model, flight=folder, process_group=None, out=sys.stderr).attach()
    atexit.register(_end, monitor)


def _end(monitor):
    kind = getattr(sys, "last_type", None)
    monitor.__exit__(kind, getattr(sys, "last_value", None), None)
