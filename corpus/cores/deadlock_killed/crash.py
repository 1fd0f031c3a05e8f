"""Two threads take two locks in opposite order; prints ready when both are stuck."""

import threading

a, b = threading.Lock(), threading.Lock()
both = threading.Barrier(3)


def one():
    with a:
        both.wait()
        with b:
            pass


def two():
    with b:
        both.wait()
        with a:
            pass


threads = [
    threading.Thread(target=one, name="uploader"),
    threading.Thread(target=two, name="checkpointer"),
]
for thread in threads:
    thread.start()
both.wait()
print("ready", flush=True)
for thread in threads:
    thread.join()
