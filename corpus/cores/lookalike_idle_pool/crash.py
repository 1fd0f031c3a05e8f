"""Four idle workers of a pool and a main thread that waits: nobody holds anything."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, sys.argv[1])
from waiting import ready_when

barrier = threading.Barrier(4)
pool = ThreadPoolExecutor(4)
list(pool.map(lambda _: barrier.wait(), range(4)))
ready_when(4)
threading.Event().wait()
