"""Runs in the user's Python (3.8 or later) as ``python -c``: imports a module, tells what came.

Each line that it writes is a dict as Python writes it: nothing is imported here that the module, or
a file in the current folder, could take the place of.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_CHARACTERS = 10_000
"""Of a message that are told."""


def _probe() -> None:
    import faulthandler
    import os
    import time

    name, descriptor, limit = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    sys.argv[1:] = []

    def tell(**row: object) -> None:
        # A module may have written to this descriptor: the line begins anew.
        os.write(descriptor, b"\n" + ascii(row).encode() + b"\n")

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event == "import" and isinstance(args[1], str):
            tell(loading=args[1])

    sys.addaudithook(hook)
    faulthandler.enable()
    faulthandler.dump_traceback_later(limit, exit=True)
    files: list[str] = []
    began = time.perf_counter()
    try:
        __import__(name)
        module = sys.modules[name]
        version = getattr(module, "__version__", None)
        tell(
            file=str(getattr(module, "__file__", None) or _fileless(module)),
            version=str(version) if isinstance(version, str) else None,
            seconds=time.perf_counter() - began,
        )
    except BaseException as error:
        seconds = time.perf_counter() - began
        frames = _frames(error)
        files += [file for file, _, _ in frames]
        tell(raised=_told(error, frames), seconds=seconds)
        if isinstance(error, ModuleNotFoundError):
            import pkgutil

            package = sys.modules.get((error.name or "").rpartition(".")[0])
            path = getattr(package, "__path__", None)
            tell(installed=sorted({one.name for one in pkgutil.iter_modules(path)}))
            if path is not None:
                tell(package=str(getattr(package, "__version__", None) or ""))
    faulthandler.cancel_dump_traceback_later()
    for shadow in _shadows(files):
        tell(shadow=shadow)
    here = os.getcwd()  # noqa: PTH109
    tell(path=[os.path.join(here, one) for one in sys.path])  # noqa: PTH118
    os._exit(0)


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    frames, at = [], error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith(("<frozen importlib", "<string>")):
            frames.append((code.co_filename, at.tb_lineno, code.co_name))
        at = at.tb_next
    return frames[-64:]


def _told(error: BaseException, frames: list[tuple[str, int, str]]) -> dict[str, object]:
    try:
        words = str(error)
    except BaseException:
        words = ""
    if len(words) > MOST_CHARACTERS:  # up to a blank: half a credential is not known as one
        words = words[:MOST_CHARACTERS].rsplit(None, 1)[0]
    name = type(error).__name__[:MOST_CHARACTERS]
    row: dict[str, object] = {"type": name, "message": words, "frames": frames}
    for name, attribute in (("module", "name"), ("file", "path")):
        value = getattr(error, attribute, None) if isinstance(error, ImportError) else None
        row[name] = value if isinstance(value, str) else None
    return row


def _fileless(module: object) -> str:
    """Return where a module without a file is from."""
    folders = list(getattr(module, "__path__", ()))
    return f"the folder {folders[0]}, which has no __init__.py" if folders else "built in"


def _shadows(files: list[str]) -> Iterator[dict[str, str]]:
    import os
    from importlib.machinery import PathFinder

    join = os.path.join
    here = os.getcwd()  # noqa: PTH109
    path = [os.path.abspath(join(here, one)) for one in sys.path]  # noqa: PTH100
    pythonpath = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    theirs = [here, *(os.path.abspath(one) for one in pythonpath if one)]  # noqa: PTH100
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            files.append(file)
    standard = getattr(sys, "stdlib_module_names", ())
    for file in dict.fromkeys(join(here, one) for one in files):
        folder, base = os.path.split(file)
        if base == "__init__.py":
            folder, base = os.path.split(folder)
        name = base.partition(".")[0]
        if folder not in theirs or folder not in path or not name.isidentifier():
            continue
        behind = [one for one in path[path.index(folder) :] if one != folder]
        try:
            spec = PathFinder.find_spec(name, behind)
        except Exception:
            spec = None
        hidden = spec.origin if spec is not None and spec.origin else None
        if hidden is None and name in standard:
            hidden = "the standard library"
        if hidden is not None and hidden != file:
            yield {"name": name, "file": file, "hides": hidden}


if __name__ == "__main__":
    _probe()
