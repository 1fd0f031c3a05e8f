"""Calls a function of stuck.cpp, after which so many native threads wait for ever."""

import ctypes
import sys
import threading

sys.path.insert(0, sys.argv[2])
from waiting import ready_when

ctypes.CDLL(sys.argv[1])[sys.argv[3]]()
ready_when(int(sys.argv[4]))
threading.Event().wait()
