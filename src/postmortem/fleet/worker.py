"""What runs on the workers of Dask and Ray: a command, with objects of a storage fetched for it."""

from collections.abc import Awaitable, Callable

from postmortem.fleet.engines import Said

Answer = tuple[bytes, str, int | None]
"""What a command wrote, what it complained, and how it ended; None: not in time."""


async def said_by(node: str, answer: Awaitable[Answer]) -> Said:
    """Return what a node said, or what kept it from that."""
    try:
        out, error, status = await answer
    except Exception as failure:  # whatever a worker, its host or the way to it ran into
        return Said(node, b"", f"{type(failure).__name__}: {failure}", 255)
    return Said(node, out, error, status)


def runner() -> Callable[[list[str], float, int], Answer]:
    """Return what runs on a worker: by value, for postmortem need not be in its Python."""

    def run(command: list[str], seconds: float, most: int) -> tuple[bytes, str, int | None]:
        import os
        import re
        import subprocess
        import tempfile

        here: dict[str, str] = {}

        def brought(found: re.Match[str]) -> str:
            """Fetch an object of a storage, and return where it lies now."""
            import fsspec

            address = found[0]
            if address not in here:
                local = f"{folder}/{len(here)}/{address.rpartition('/')[2]}"
                os.makedirs(os.path.dirname(local))  # noqa: PTH103, PTH120
                storage, path = fsspec.core.url_to_fs(address)
                storage.get_file(path, local)
                here[address] = local
            return here[address]

        with tempfile.TemporaryDirectory(prefix="postmortem-") as folder:
            try:
                words = [
                    re.sub(r"\b[a-z][a-z0-9+.-]*://[^\s'\"]+", brought, one) for one in command
                ]
                done = subprocess.run(
                    words,
                    capture_output=True,
                    stdin=subprocess.DEVNULL,
                    timeout=seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return b"", "", None
            except OSError as error:
                return b"", f"{error.filename or command[0]}: {error.strerror or error}", 127
        out = done.stdout[:most]
        for address, local in here.items() if out.startswith(b"{") else ():
            out = out.replace(local.encode(), address.encode())
        return out, done.stderr[:65536].decode("utf-8", "replace"), done.returncode

    run.__module__ = "__main__"
    return run
