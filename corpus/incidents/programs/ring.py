"""Ranks that hand parts to each other over sockets of their own: ``ring.py RANK=FAULT``.

What a rank says of a lost or late peer is this program's own error.
"""

import ctypes
import logging
import os
import socket
import sys
import threading
import time

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PORT, WAIT = int(os.environ["MASTER_PORT"]), float(os.environ.get("TIMEOUT", "15"))
FAULT = dict(word.split("=") for word in sys.argv[1:]).get(str(RANK), "")
LOG = logging.getLogger("ring")
PART = 64


def connected():
    """Return a socket to the next rank, and one from the rank before."""
    listener = socket.create_server(("127.0.0.1", PORT + RANK))
    following = socket.socket()
    for _ in range(300):
        try:
            following = socket.create_connection(("127.0.0.1", PORT + (RANK + 1) % SIZE))
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    before, _ = listener.accept()
    before.settimeout(WAIT)
    return following, before


def receive(before, peer):
    part = b""
    while len(part) < PART:
        try:
            more = before.recv(PART - len(part))
        except TimeoutError:
            raise TimeoutError(f"rank {peer} sent no part for {WAIT:.0f} s") from None
        if not more:
            raise ConnectionError(f"rank {peer} closed the connection before its part was whole")
        part += more
    return part


def read_shard(step):
    while True:
        time.sleep(step)


def keep_alive():
    while True:
        time.sleep(0.5)


def main():
    form = f"%(asctime)s %(levelname)s rank {RANK} %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form)
    LOG.info("rank %d of %d is pid %d", RANK, SIZE, os.getpid())
    following, before = connected()
    for step in range(12):
        if step == 5 and FAULT == "segv":
            ctypes.string_at(16)
        if step == 5 and FAULT == "sleep":
            threading.Thread(target=keep_alive, daemon=True).start()
            read_shard(3600)
        if step == 5 and FAULT == "raise":
            raise KeyError("lr")
        following.sendall(bytes(PART))
        receive(before, (RANK - 1) % SIZE)
        LOG.info("step %d loss %.4f", step, 1 / (step + 1))
        time.sleep(0.2)
    LOG.info("finished after 12 steps")


main()
