"""Python and C call each other without end, until the stack of the thread is used up: SIGSEGV."""

import ctypes
import threading

STACK_BYTES = 512 << 10

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def sort_lengths(compare: object) -> list[int]:
    lengths = (ctypes.c_int * 2)(2, 1)
    libc.qsort(lengths, 2, ctypes.sizeof(ctypes.c_int), compare)
    return list(lengths)


def compare_lengths(left: int, right: int) -> int:
    # the bug: the order of two samples is found by sorting them, in this same order
    return sort_lengths(SHORTEST_FIRST)[0]


SHORTEST_FIRST = COMPARE(compare_lengths)


def build_buckets() -> None:
    sort_lengths(SHORTEST_FIRST)
    # Python 3.14 watches the stack and stops that recursion; it cannot watch this one, in which
    # glibc's regcomp descends into every bracket of a generated pattern
    libc.regcomp(ctypes.create_string_buffer(256), b"(" * 200_000, 1)


def main() -> None:
    threading.stack_size(STACK_BYTES)
    sampler = threading.Thread(target=build_buckets, name="bucket_sampler")
    sampler.start()
    sampler.join()


main()
