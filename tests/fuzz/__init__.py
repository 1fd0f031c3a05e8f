"""Fuzz targets of what is read in Python; those of C++ are in csrc/fuzz."""
