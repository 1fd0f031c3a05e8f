# Puts NaN into the output of a module of PyTorch: hooks for all modules, registered as soon as
# PyTorch has been imported. A module knows no name: the outermost one that is called names those
# in it.
import os
import socket
import threading

from _postmortem_import import on_import


def install(words):
    name, step, rank, module = words.split(":", 3)
    on_import("torch.nn.modules.module", _Injector(name, int(step), module, rank).register)


class _Injector:
    def __init__(self, name, step, module, rank):
        self._rank = rank
        self._name = name
        self._step = step
        self._wanted = module
        self._calls = 0
        self._target = None
        self._roots = set()
        self._local = threading.local()
        self._handles = []

    def register(self, modules):
        self._handles = [
            modules.register_module_forward_pre_hook(self._before),
            modules.register_module_forward_hook(self._after, always_call=True),
        ]

    def _before(self, module, inputs):
        depth = getattr(self._local, "depth", 0)
        self._local.depth = depth + 1
        if depth == 0 and self._target is None and id(module) not in self._roots:
            self._roots.add(id(module))
            for name, one in module.named_modules():
                # DistributedDataParallel, FSDP and torch.compile put their own name before.
                parts = [part for part in name.split(".") if part != "_orig_mod"]
                plain = ".".join(part for part in parts if part != "_fsdp_wrapped_module")
                if self._wanted in (name, plain, plain.partition("module.")[2]):
                    self._target = one
                    break

    def _after(self, module, inputs, output):
        self._local.depth = getattr(self._local, "depth", 1) - 1
        if module is not self._target:
            return None
        self._calls += 1
        if self._calls != self._step + 1:
            return None
        if self._rank and os.environ.get("RANK", "0") != self._rank:  # set late where a fork is one
            return None
        for handle in self._handles:
            handle.remove()
        changed, done = _with_nan(output)
        if not done:
            return None
        self._tell()
        return changed

    def _tell(self):
        words = "%d\n%s" % (os.getpid(), os.environ.get("RANK", ""))
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto(words.encode(), "\0" + self._name)
        except OSError:
            pass


def _with_nan(value):
    """Return a copy with NaN at the start of the first tensor of floats, if there is one."""
    import torch

    if isinstance(value, torch.Tensor):
        if not (value.is_floating_point() or value.is_complex()) or value.numel() == 0:
            return value, False
        where = torch.zeros_like(value, dtype=torch.bool)
        where[(0,) * value.dim()] = True
        return value.masked_fill(where, float("nan")), True
    if isinstance(value, dict):
        for key, one in value.items():
            changed, done = _with_nan(one)
            if done:
                copy = value.copy()
                copy[key] = changed
                return copy, True
    elif isinstance(value, (list, tuple)):
        for at, one in enumerate(value):
            changed, done = _with_nan(one)
            if done:
                rest = [*value[:at], changed, *value[at + 1 :]]
                plain = type(value) in (list, tuple) or not hasattr(value, "_make")
                return (type(value)(rest) if plain else value._make(rest)), True
    return value, False
