"""growing.py STEP_KIB SECONDS: keeps STEP_KIB more every 20 ms, in `hoard`, and says "ready"."""

import sys
import time

STEP, SECONDS = int(sys.argv[1]) << 10, float(sys.argv[2])
kept = []


def hoard() -> None:
    kept.append(bytearray(STEP))
    time.sleep(0.02)


print("ready", flush=True)
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    hoard()
