"""Dies in a destructor that runs while the frame of a function called from C is left."""

import os


class Resource:
    def __del__(self):
        last_breath()


class Failure(Exception):
    pass


def last_breath():
    os.abort()


def leaves(_):
    resource = Resource()


def handles():
    try:
        int("abc")
    except ValueError:
        try:
            raise Failure(1, "two")
        except Failure:
            list(map(leaves, [1]))


handles()
