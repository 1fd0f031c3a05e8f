"""Loads torch, then the library that throws: crash.py LIBRARY."""

import ctypes
import sys

import torch  # noqa: F401

ctypes.CDLL(sys.argv[1]).boom()
