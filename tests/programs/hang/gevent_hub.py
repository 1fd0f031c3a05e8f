"""Waits in gevent's hub: greenlets that wait for an event, a queue, a socket, and that sleep."""

from gevent import monkey

monkey.patch_all()

import socket
import sys
import time

import gevent
from gevent.event import Event
from gevent.queue import Queue


def wait():
    event.wait()


def take():
    queue.get()


def read():
    near, _far = socket.socketpair()
    near.recv(1)


def doze():
    time.sleep(3600)


event, queue = Event(), Queue()
waiting = [gevent.spawn(one) for one in (wait, take, read, *[doze] * 20)]
waiting[0].name = "waiter"
gevent.sleep(0.05)
print("ready", file=sys.stderr, flush=True)
gevent.joinall(waiting)
