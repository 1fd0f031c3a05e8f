"""Cores where there is no disk for them: the program that the kernel hands each core to."""
