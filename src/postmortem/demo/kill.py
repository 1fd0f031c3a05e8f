"""A rank waits for a peer that never answers, and its launcher kills it with SIGABRT."""

import os
import threading

PEER_ANSWERED = threading.Event()


def all_reduce(step: int) -> None:
    PEER_ANSWERED.wait()


def train_step(step: int) -> None:
    all_reduce(step)


def report_ready() -> None:
    os.write(1, f"ready {os.getpid()}\n".encode())
    PEER_ANSWERED.wait()


def main() -> None:
    os.environ.update(RANK="1", LOCAL_RANK="1", WORLD_SIZE="2")
    threading.Thread(target=report_ready, name="heartbeat").start()
    train_step(step=7)


main()
