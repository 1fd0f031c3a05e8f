"""Two native threads take two std::mutex in opposite order."""

import ctypes
import sys
import threading

sys.path.insert(0, sys.argv[2])
from waiting import ready_when

ctypes.CDLL(sys.argv[1]).two_mutexes()
ready_when(2)
threading.Event().wait()
