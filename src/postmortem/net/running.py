"""A check from its beginning to its end: one port, or a meeting of all nodes."""

import asyncio
import errno
import socket
import time
from collections.abc import Callable

from postmortem.facts.net import LARGE, Attempt, Lookup, Met, NetCheck, Target
from postmortem.facts.source import Problem
from postmortem.net.coordinator import Coordinator, Say
from postmortem.net.local import this_node
from postmortem.net.member import Ended, Meeting, Member
from postmortem.net.prober import Answer, Question, Service, ask, largest_packet, listening
from postmortem.readers.network.holders import holder_of
from postmortem.readers.network.interfaces import is_ours, owner_of, read_interfaces, source_for
from postmortem.readers.network.names import look_up
from postmortem.records import record, replace

Judge = Callable[[NetCheck, tuple[Problem, ...]], tuple[int, str]]
"""Makes a report of what was seen; returns the exit status and the verdict for the others."""

_RETRY = 0.5
_QUIET = 0.7


@record
class Options:
    """What of a meeting is left out."""

    speed: bool = True
    torch: bool = True


def meet(meeting: Meeting, options: Options, say: Say, judge: Judge) -> Ended:
    """Take part in a meeting; node 0 holds it, and calls `judge` before it lets the others go.

    Raises `member.Refused`, OSError.
    """
    node = this_node(meeting.number, meeting.host)
    if meeting.number != 0:
        return asyncio.run(_as_task(Member(meeting, node).run()))
    try:
        raw = listening(None, meeting.port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        lookup = node.master or Lookup(meeting.host)
        held = Target(meeting.host, meeting.port, lookup, ours=True, master=True)
        held = replace(held, holder=holder_of(meeting.port))
        return Ended(NetCheck(meeting.world, (node,), target=held))
    return asyncio.run(_as_task(_hold(meeting, options, say, judge, raw, Member(meeting, node))))


async def _as_task(work: object) -> Ended:
    assert asyncio.iscoroutine(work)
    found = await work
    assert isinstance(found, Ended)
    return found


async def _hold(
    meeting: Meeting, options: Options, say: Say, judge: Judge, raw: socket.socket, own: Member
) -> Ended:
    coordinator = Coordinator(meeting, say, speed=options.speed, torch=options.torch)
    await coordinator.listen(raw)
    me = asyncio.ensure_future(own.run())
    try:
        check = await coordinator.run()
        problems = tuple(
            Problem(address, f"was not taken in: {why}", "is it of this job, with this --token?")
            for address, why in coordinator.strangers.items()
        )
        if me.done() and 0 not in {node.number for node in check.nodes}:
            # Our own name leads elsewhere: what we met on the way to ourselves tells it.
            check = replace(check, target=me.result().check.target)
        code, verdict = judge(check, problems)
        await coordinator.end(code, verdict)
        return Ended(check, code, verdict)
    finally:
        await coordinator.stop()
        me.cancel()
        await asyncio.gather(me, return_exceptions=True)


def check_port(host: str, port: int, token: str, seconds: float, wait: float) -> NetCheck:
    """Try a host and port; where that is this host, listen there for those who try it."""
    interfaces = read_interfaces()
    lookup = look_up(host)
    ours = bool(lookup.addresses) and all(is_ours(interfaces, one) for one in lookup.addresses)
    target = Target(host, port, lookup, ours=ours)
    if lookup.addresses and ours:
        target = _listen_for_others(target, token, seconds, wait)
    elif lookup.addresses:
        target = asyncio.run(_reach(target, token, seconds, wait))
    return NetCheck(1, (this_node(0, None),), target=target)


def _listen_for_others(target: Target, token: str, seconds: float, wait: float) -> Target:
    address = target.lookup.addresses[0]
    try:
        came = asyncio.run(_wait_for_one(address, target.port, token, seconds, wait))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return replace(target, holder=holder_of(target.port))
    if came is None:
        return replace(target, listened=wait)
    return replace(target, attempts=(Attempt(came, address, None, Met.OK),))


async def _wait_for_one(
    address: str, port: int, token: str, seconds: float, wait: float
) -> str | None:
    service = Service(token, 0, seconds)
    await service.start(address, port)
    ends = time.monotonic() + wait
    try:
        # Who was answered may come again at once: it looks for the size of packets that passes.
        while time.monotonic() < ends or service.quiet_seconds() == 0.0:
            if service.answered and (service.quiet_seconds() or 0.0) > _QUIET:
                break
            await asyncio.sleep(0.05)
    finally:
        await service.stop()
    return service.answered[0] if service.answered else None


async def _reach(target: Target, token: str, seconds: float, wait: float) -> Target:
    """Try all addresses of a host; one that refuses again, until the time is over."""
    back = Service(token, 0, seconds)
    await back.start()
    try:
        for address in target.lookup.addresses:
            attempt, answer = await _reach_one(target, address, back.port, token, seconds, wait)
            target = replace(
                target,
                attempts=(*target.attempts, attempt),
                greeting=answer.greeting,
                back=answer.back,
            )
            if attempt.met in LARGE:
                target = await _measured(target, attempt, token, seconds)
            if attempt.met is Met.OK or attempt.met in LARGE:
                break
        return target
    finally:
        await back.stop()


async def _reach_one(
    target: Target, address: str, back: int, token: str, seconds: float, wait: float
) -> tuple[Attempt, Answer]:
    source, why = source_for(address)
    name = owner_of(read_interfaces(), source)
    ends = time.monotonic() + wait
    tries = 0
    while True:
        tries += 1
        answer = await ask(address, target.port, seconds, Question(token, back=back))
        met = answer.met
        if met is not Met.REFUSED and (met is not Met.DROPPED or tries > 1):
            break
        if time.monotonic() + _RETRY > ends:
            break
        await asyncio.sleep(_RETRY)
    detail = answer.detail or why
    return Attempt(address, source, name, answer.met, detail, answer.seconds, tries), answer


async def _measured(target: Target, attempt: Attempt, token: str, seconds: float) -> Target:
    mtu = next((one.mtu for one in read_interfaces() if one.name == attempt.interface), 1500)
    question = Question(token)
    largest = await largest_packet(
        attempt.address, target.port, min(1.5, seconds), question, None, min(mtu, 9216)
    )
    return replace(target, largest=largest)
