"""What `postmortem watch` costs: processor time of 60 s over 64 processes, one look a second.

python bench/watch.py [PROCESSES [SECONDS [MIB]]]: the processes hold MIB each (their pages are what
the kernel walks for PSS).
"""

import resource
import subprocess
import sys
import time


def main() -> None:
    count, seconds, mib = (
        int(word) for word in [*sys.argv[1:], *("64", "60", "20")[len(sys.argv) - 1 :]]
    )
    program = f"kept = bytearray(b'x') * ({mib} << 20); print('ready', flush=True); input()"
    started = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(count)
    ]
    for one in started:
        assert one.stdout is not None
        one.stdout.readline()
    try:
        measure([str(one.pid) for one in started], seconds)
    finally:
        for one in started:
            one.kill()
            one.wait()


def measure(pids: list[str], seconds: int) -> None:
    """Run the watch, and subtract what starting and reporting cost: a watch of two seconds."""
    costs = []
    for length in (2, 2 + seconds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        command = [sys.executable, "-m", "postmortem", "watch", *pids, "--for", str(length)]
        done = subprocess.run(
            [*command, "--ring", "/dev/shm/bench-watch.ring", "--json"],
            capture_output=True,
            text=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        costs.append((spent, time.monotonic() - began, done.stdout))
    subprocess.run(["rm", "-f", "/dev/shm/bench-watch.ring"], check=False)
    import json

    looks = max(len(one["samples"]) for one in json.loads(costs[1][2])["processes"])
    share = (costs[1][0] - costs[0][0]) / seconds
    print(f"{len(pids)} processes, {seconds} s, {looks} looks: {share:.3%} of one core")
    print(f"start and report: {costs[0][0]:.2f} s of processor time")


main()
