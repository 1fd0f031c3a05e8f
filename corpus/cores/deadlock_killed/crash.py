"""Two threads take two locks in opposite order; prints ready when both are stuck."""

import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from waiting import ready_when

entered = []
a, b = threading.Lock(), threading.Lock()
both = threading.Barrier(3)


def one():
    with a:
        both.wait()
        entered.append(1)
        with b:
            pass


def two():
    with b:
        both.wait()
        entered.append(1)
        with a:
            pass


threads = [
    threading.Thread(target=one, name="uploader"),
    threading.Thread(target=two, name="checkpointer"),
]
for thread in threads:
    thread.start()
both.wait()
ready_when(2, entered)
for thread in threads:
    thread.join()
