"""Ranks of no library at all: plain.py KIND, with RANK and its kin set by whoever starts it."""

import os
import sys
import time

from postmortem import breakpoint_on_rank, printflock

KIND = sys.argv[1]


def stop() -> int:
    secret = 41
    breakpoint_on_rank(0)
    secret += 1
    return secret


def loop() -> int:
    turns = 0
    breakpoint_on_rank(0)
    try:
        while turns >= 0:
            turns += 1
            time.sleep(0.01)
            print("turn", flush=True)
    except KeyboardInterrupt:
        turns = -77
    return turns


def fork() -> int:
    breakpoint_on_rank(0)
    child = os.fork()
    if child == 0:
        print("child prints", flush=True)
        time.sleep(1000)
    printflock("child is", child)
    return child


def raising() -> int:
    breakpoint_on_rank(0, on_exception=True)
    culprit = 1234
    raise KeyError(culprit)


printflock("began", os.getpid())
print("result", globals()[KIND]())
printflock("over")
