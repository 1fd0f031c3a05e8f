"""A file system that never answers open(): ``silent_fs.py FOLDER`` mounts it and prints "ready".

Speaks FUSE's protocol (linux/fuse.h) on /dev/fuse itself. Names with a dot are files of 4,000
bytes, all others folders. It is gone when its standard input ends. Needs root.
"""

import ctypes
import errno
import os
import select
import struct
import sys

LOOKUP, FORGET, GETATTR, INIT, ACCESS, INTERRUPT = 1, 2, 3, 26, 34, 36
HEADER = struct.Struct("<IIQQIIIHH")
ATTRIBUTES = struct.Struct("<6Q10I")


def attributes(node, is_folder):
    mode = 0o40755 if is_folder else 0o100644
    return ATTRIBUTES.pack(node, 4000, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(device, unique, data=b"", error=0):
    os.write(device, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)


def serve(device):
    folders = {1: True}
    names = {}
    while True:
        ready, _, _ = select.select([device, 0], [], [])
        if 0 in ready:
            return
        request = os.read(device, 1 << 20)
        _, kind, unique, node, *_ = HEADER.unpack_from(request)
        body = request[HEADER.size :]
        if kind == INIT:
            ready_made = struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
            answer(device, unique, ready_made)
        elif kind == GETATTR:
            answer(device, unique, struct.pack("<QII", 60, 0, 0) + attributes(node, folders[node]))
        elif kind == LOOKUP:
            name = body.rstrip(b"\0")
            found = names.setdefault((node, name), len(names) + 2)
            folders[found] = b"." not in name
            entry = struct.pack("<4Q2I", found, 0, 60, 60, 0, 0)
            answer(device, unique, entry + attributes(found, folders[found]))
        elif kind == ACCESS:
            answer(device, unique, error=errno.ENOSYS)


def main(folder):
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"silent", folder.encode(), b"fuse", 6, options):
        sys.exit(os.strerror(ctypes.get_errno()))
    try:
        print("ready", flush=True)
        serve(device)
    finally:
        libc.umount2(folder.encode(), 2)
        os.close(device)  # ends all who wait


main(sys.argv[1])
