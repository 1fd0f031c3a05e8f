"""A staging buffer is freed at the wrong address: glibc finds its heap corrupt and aborts."""

import ctypes
import threading

libc = ctypes.CDLL(None)
libc.malloc.argtypes = [ctypes.c_size_t]
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]


def release_staging_buffer(address: int, header_bytes: int) -> None:
    # the bug: the header was never part of this allocation
    libc.free(address + header_bytes)


def save_checkpoint(step: int) -> None:
    address = libc.malloc(4096)
    ctypes.memset(address, 0, 4096)
    release_staging_buffer(address, header_bytes=8)


def main() -> None:
    threading.Thread(target=threading.Event().wait, name="metrics_writer", daemon=True).start()
    save_checkpoint(step=1000)


main()
