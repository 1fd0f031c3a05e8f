"""A node that meets the others at node 0 and does what that one asks: probes, floods, a reduce."""

import asyncio
import os
import time
from typing import Any

from postmortem.errors import Refusal
from postmortem.facts import net
from postmortem.net import collective
from postmortem.net.attempt import NoConnection, Streams, close, connect
from postmortem.net.local import alternatives, common_ways
from postmortem.net.prober import Question, Service, ask, largest_packet
from postmortem.net.wire import (
    BANNER,
    LONG_LINE,
    WireError,
    decode,
    encoded,
    proof,
    proves,
    read_line,
)
from postmortem.readers.network.interfaces import is_ours, owner_of, source_for
from postmortem.readers.network.names import look_up
from postmortem.records import record, replace

_AT_ONCE = 32
_MOST_ALTERNATIVES = 2
_MOST_ASKED = 4
"""Failed probes of one node for which other addresses are tried."""
_RETRY = 0.5
_MOST_NAMES = 8
_NAME_SECONDS = 3.0


class Refused(Refusal):
    """Node 0 does not take us: another token, another number of nodes, or a number twice."""


@record
class Meeting:
    """Where and how the nodes meet."""

    host: str
    port: int
    number: int
    world: int
    token: str
    seconds: float
    """For each step of a probe."""
    wait: float
    """For all nodes to come."""


@record
class Ended:
    """How it ended for a member."""

    check: net.NetCheck
    code: int | None = None
    """What node 0 found, as an exit status; None: it could not tell us."""
    verdict: str = ""


class Member:
    """One node among others."""

    def __init__(self, meeting: Meeting, node: net.Node) -> None:
        self._at = meeting
        self._service = Service(meeting.token, meeting.number, meeting.seconds)
        self._node = node
        self._peers: dict[int, net.Node] = {}
        self._stage = net.StageName.MEETING

    async def run(self) -> Ended:
        """Take part until node 0 has said how it ended; raises Refused."""
        await self._service.start()
        self._node = replace(self._node, port=self._service.port)
        try:
            streams, target = await self._meet()
            if streams is None:
                return Ended(self._check(target))
            try:
                return await self._serve(streams, target)
            finally:
                close(streams)
        finally:
            await self._service.stop()

    def _check(self, target: net.Target, *, gone: bool = False) -> net.NetCheck:
        lost = (net.Lost(0, self._at.host, net.Parting.LEFT, self._stage),) if gone else ()
        return net.NetCheck(self._at.world, (self._node,), target=target, lost=lost)

    async def _meet(self) -> tuple[Streams | None, net.Target]:
        """Connect to node 0 until it takes us or the time is over."""
        lookup = self._node.master or net.Lookup(self._at.host)
        target = net.Target(self._at.host, self._at.port, lookup, ours=False, master=True)
        ends = time.monotonic() + self._at.wait
        seen: dict[str, net.Attempt] = {}
        while lookup.addresses:
            for address in lookup.addresses:
                tried = time.monotonic()
                attempt, streams = await self._try(address)
                before = seen.get(address)
                seen[address] = replace(attempt, tries=before.tries + 1 if before else 1)
                target = replace(
                    target,
                    ours=is_ours(self._node.interfaces, address),
                    attempts=tuple(seen.values()),
                    greeting=attempt.detail if attempt.met is net.Met.FOREIGN else None,
                )
                if streams is not None:
                    return streams, target
                if time.monotonic() > ends or attempt.met is net.Met.FOREIGN:
                    return None, target
                await asyncio.sleep(max(0.0, _RETRY - (time.monotonic() - tried)))
        return None, target

    async def _try(self, address: str) -> tuple[net.Attempt, Streams | None]:
        source, why = source_for(address)
        name = owner_of(self._node.interfaces, source)
        attempt = net.Attempt(address, source, name, net.Met.UNREACHABLE, why)
        try:
            streams, took = await connect(address, self._at.port, self._at.seconds, limit=LONG_LINE)
        except NoConnection as error:
            return replace(attempt, met=error.met, detail=error.detail), None
        attempt = replace(attempt, seconds=took, detail="")
        try:
            await self._join(streams)
        except Refused:
            close(streams)
            raise
        except (WireError, asyncio.LimitOverrunError) as error:
            close(streams)
            return replace(attempt, met=net.Met.FOREIGN, detail=str(error)), None
        except TimeoutError:
            close(streams)
            return replace(attempt, met=net.Met.SILENT, detail="it says nothing"), None
        except OSError as error:
            close(streams)
            detail = error.strerror or str(error)
            return replace(attempt, met=net.Met.RESET, detail=detail), None
        return replace(attempt, met=net.Met.OK), streams

    async def _join(self, streams: Streams) -> None:
        reader, writer = streams
        try:
            async with asyncio.timeout(self._at.seconds):
                banner = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise WireError(f"said {error.partial[:60]!r}") from None
            raise ConnectionResetError("it closed the connection at once") from None
        if not banner.startswith(BANNER):
            raise WireError(f"said {banner[:60]!r}")
        theirs, ours = (
            banner[len(BANNER) :].decode("ascii", "replace").strip(),
            os.urandom(16).hex(),
        )
        join: dict[str, object] = {
            "proof": proof(self._at.token, theirs, "member"),
            "nonce": ours,
            "world": self._at.world,
            "number": self._at.number,
        }
        writer.write(encoded(join))
        reply = await read_line(reader, self._at.wait)
        if "refused" in reply:
            raise Refused(str(reply["refused"])[:200])
        if not proves(self._at.token, ours, "coordinator", reply.get("proof")):
            raise Refused("what answers there cannot prove that it knows the token")
        writer.write(encoded({"node": self._node}))
        await writer.drain()

    async def _serve(self, streams: Streams, target: net.Target) -> Ended:
        reader, writer = streams
        while True:
            try:
                asked = await read_line(reader, self._at.wait + 3600)
                if "end" in asked:
                    code = asked["end"]
                    if code not in (0, 1):
                        raise WireError("an end of neither 0 nor 1")
                    return Ended(self._check(target), code, str(asked.get("verdict", ""))[:2000])
                writer.write(encoded({"did": asked.get("do"), "rows": await self._do(asked)}))
                await writer.drain()
            except (OSError, WireError):
                return Ended(self._check(target, gone=True))

    async def _do(self, asked: dict[str, Any]) -> object:
        what = asked.get("do")
        if what == "peers":
            self._stage = net.StageName.NAMES
            nodes = [decode(net.Node, one) for one in asked.get("nodes", ())]
            self._peers = {one.number: one for one in nodes}
            return await self._misnamed()
        if what in ("probe", "again", "largest"):
            self._stage = net.StageName.PAIRS
        if what == "probe":
            return await self._probe_all(decode(tuple[int, ...], asked.get("targets")))
        if what == "again":
            return await self._again(decode(tuple[net.Probe, ...], asked.get("probes")))
        if what == "flood":
            self._stage = net.StageName.SPEED
            return await self._flood(decode(int, asked.get("target")), decode(int, asked["bytes"]))
        if what == "largest":
            return [await self._largest(decode(net.Probe, asked.get("probe")))]
        if what == "collective":
            place = decode(collective.Place, asked.get("place"))
            self._stage = place.backend
            return [await self._collective(place)]
        raise WireError(f"asks for {what!r}")

    async def _misnamed(self) -> list[net.Misnamed]:
        """Return the peers whose names lead elsewhere here; of many, the first and the next ones.

        What has no name here, or one that several share, says nothing.
        """
        hosts = [one.host for one in self._peers.values()] + [self._node.host]
        known = {one.host: one for one in self._peers.values() if hosts.count(one.host) == 1}
        number = self._at.number
        order = sorted(known.values(), key=lambda one: (one.number != 0, one.number < number))
        picked = order[:_MOST_NAMES]
        names = await asyncio.gather(
            *(asyncio.to_thread(look_up, one.host, _NAME_SECONDS) for one in picked)
        )
        found = []
        for other, lookup in zip(picked, names, strict=True):
            real = {address for face in other.interfaces for address in face.addresses}
            if lookup.addresses and not real.intersection(lookup.addresses):
                found.append(net.Misnamed(number, other.number, lookup))
        return found

    async def _probe_all(self, targets: tuple[int, ...]) -> list[net.Probe]:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(peer: net.Node, way: tuple[str, str, str]) -> net.Probe:
            async with gate:
                return await self._probe(peer, *way)

        found = (self._peers[number] for number in targets if number in self._peers)
        tries = [one(peer, way) for peer in found for way in common_ways(self._node, peer)]
        return list(await asyncio.gather(*tries))

    async def _probe(self, peer: net.Node, way: str, source: str, address: str) -> net.Probe:
        question = Question(self._at.token, self._at.number, peer.number)
        answer = await ask(address, peer.port, self._at.seconds, question, source)
        return net.Probe(
            source=self._at.number,
            target=peer.number,
            way=way,
            met=answer.met,
            from_address=source,
            to_address=address,
            port=peer.port,
            detail=answer.detail or (answer.greeting or ""),
            seconds=answer.seconds,
            round_trip=answer.round_trip,
        )

    async def _again(self, probes: tuple[net.Probe, ...]) -> list[net.Probe]:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int, before: net.Probe) -> net.Probe:
            peer = self._peers.get(before.target)
            if peer is None:
                return before
            async with gate:
                now = await self._probe(peer, before.way, before.from_address, before.to_address)
                now = replace(now, first_try=before.met)
                if now.met is net.Met.OK or number >= _MOST_ASKED or now.met in net.LARGE:
                    return now
                return replace(now, alternative=await self._alternative(peer, before))

        return list(await asyncio.gather(*(one(*row) for row in enumerate(probes))))

    async def _alternative(self, peer: net.Node, failed: net.Probe) -> str | None:
        question = Question(self._at.token, self._at.number, peer.number)
        for name, address in alternatives(peer, failed.to_address)[:_MOST_ALTERNATIVES]:
            answer = await ask(address, peer.port, self._at.seconds, question)
            if answer.met is net.Met.OK:
                return f"{name} {address}"
        return None

    async def _largest(self, probe: net.Probe) -> net.Probe:
        peer = self._peers.get(probe.target)
        if peer is None:
            return probe
        name = owner_of(self._node.interfaces, probe.from_address)
        mtu = next((one.mtu for one in self._node.interfaces if one.name == name), 1500)
        question = Question(self._at.token, self._at.number, peer.number)
        largest = await largest_packet(
            probe.to_address,
            peer.port,
            min(1.5, self._at.seconds),
            question,
            probe.from_address,
            min(mtu, 9216),
        )
        return replace(probe, largest=largest)

    async def _flood(self, target: int, count: int) -> list[net.Speed]:
        peer = self._peers.get(target)
        if peer is None:
            return []
        way = common_ways(self._node, peer)
        if not way:
            return []
        _, source, address = way[-1]
        question = Question(self._at.token, self._at.number, target, 0, flood=count)
        answer = await ask(address, peer.port, self._at.seconds, question, source)
        if answer.met is not net.Met.OK or answer.round_trip is None:
            return []
        rate = answer.flood_bytes_per_second
        return [net.Speed(self._at.number, target, rate, answer.round_trip)]

    async def _collective(self, place: collective.Place) -> net.Collective:
        return await collective.take_part(place, self._at.number)
