"""Waits with greenlets switched out: in each other, in the one that began, deep in their own calls."""

import sys
import time

import greenlet


def fetch(depth):
    if depth:
        fetch(depth - 1)
    else:
        list(map(wait, [1]))  # an evaluator more, whose frame lies on the C stack


def wait(_):
    main.switch()


def compute():
    other = greenlet.greenlet(lose)
    other.name = "loser"
    other.switch()
    kept.append(other)
    print("ready", file=sys.stderr, flush=True)
    time.sleep(3600)


def lose():
    here.switch()


kept = []
main = greenlet.getcurrent()
fetcher = greenlet.greenlet(fetch)
fetcher.switch(3)
ended = greenlet.greenlet(lambda: None)
ended.switch()
unbegun = greenlet.greenlet(fetch)
here = greenlet.greenlet(compute)
here.switch()  # does not come back
