"""Calls one function of the library: call.py LIBRARY FUNCTION [INT]."""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
function = getattr(library, sys.argv[2])
print("calling", sys.argv[2], flush=True)
if sys.argv[2] == "recurse":
    function(0, None)
else:
    function(*(int(word) for word in sys.argv[3:]))
