"""A check of the program's own gives up with os.abort()."""

import os


def check(loss: float) -> None:
    if loss != loss:
        os.abort()


check(float("nan"))
