import os
import signal
import threading
import time

a, b = threading.Lock(), threading.Lock()
ready = threading.Barrier(3)


def forwards():
    with a:
        ready.wait()
        with b:
            pass


def backwards():
    with b:
        ready.wait()
        with a:
            pass


for f in (forwards, backwards):
    threading.Thread(target=f, name=f.__name__, daemon=True).start()
ready.wait()
time.sleep(1.5)
os.kill(os.getpid(), signal.SIGABRT)
time.sleep(5)
