"""Waits in an event loop: tasks that await each other, a queue, a lock, and nothing at all."""

import asyncio
import sys


class Ready:
    """An awaitable of its own."""

    def __init__(self, queue):
        self.queue = queue

    def __await__(self):
        return self.queue.get().__await__()


async def consume(queue):
    return await Ready(queue)


async def batches(queue):
    while True:
        yield await queue.get()


async def train(queue):
    async for _ in batches(queue):
        pass


async def save(lock):
    async with lock:
        pass


async def main():
    queue, lock = asyncio.Queue(), asyncio.Lock()
    await lock.acquire()
    tasks = [
        asyncio.create_task(consume(queue), name="consumer"),
        asyncio.create_task(train(queue), name="trainer"),
        asyncio.create_task(save(lock)),
    ]
    done = asyncio.create_task(asyncio.sleep(0), name="done")
    await done
    await asyncio.sleep(0.01)
    sleeper = asyncio.create_task(asyncio.sleep(3600), name="sleeper")
    watcher = asyncio.create_task(asyncio.wait_for(tasks[0], None), name="watcher")
    await asyncio.sleep(0.01)
    print("ready", file=sys.stderr, flush=True)
    await asyncio.gather(*tasks, watcher, sleeper)


asyncio.run(main())
