"""Node 0: takes the others in, has them try each other in rounds, and keeps what they met."""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable
from typing import TypeVar

from postmortem.facts.net import (
    LARGE,
    Collective,
    Lost,
    Met,
    Misnamed,
    NetCheck,
    Node,
    Parting,
    Probe,
    Speed,
    Stage,
    StageName,
)
from postmortem.net import rounds
from postmortem.net.attempt import Streams, close
from postmortem.net.collective import Place
from postmortem.net.member import Meeting
from postmortem.net.wire import (
    BANNER,
    LINE,
    LONG_LINE,
    WireError,
    decode,
    encoded,
    in_tasks,
    proof,
    proves,
    read_line,
)
from postmortem.records import replace

FLOOD = 8 << 20
_MOST_AGAIN = 4096
_MOST_LARGEST = 3
_AT_ONCE = 256

Say = Callable[[str], None]
T = TypeVar("T")


class Coordinator:
    """The meeting as node 0 sees it."""

    def __init__(self, meeting: Meeting, say: Say, *, speed: bool, torch: bool) -> None:
        self._at = meeting
        self._say = say
        self._speed = speed
        self._torch = torch
        self._members: dict[int, Streams] = {}
        self._nodes: dict[int, Node] = {}
        self._lost: dict[int, Lost] = {}
        self._stages: list[Stage] = []
        self._probes: dict[tuple[int, int, str], Probe] = {}
        self._misnamed: list[Misnamed] = []
        self._speeds: list[Speed] = []
        self._collectives: list[Collective] = []
        self._all_here = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open = 0
        self._joining: set[asyncio.Task[None]] = set()
        self.strangers: dict[str, str] = {}
        """Addresses of those that were not taken in, and why."""

    async def listen(self, raw: socket.socket) -> None:
        """Take members in at a socket that listens."""
        take_in = in_tasks(self._take_in, self._joining, _AT_ONCE)
        self._server = await asyncio.start_server(take_in, sock=raw, limit=LINE)

    async def run(self) -> NetCheck:
        """Have all tried, and return what was met."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._at.wait):
                await self._all_here.wait()
        except TimeoutError:
            pass
        for number in range(self._at.world):
            if number not in self._nodes:
                self._lost[number] = Lost(number, None, Parting.NEVER_CAME, StageName.MEETING)
        here = len(self._nodes)
        self._stage(StageName.MEETING, began, count=here, failed=self._at.world - here)
        await self._introduce()
        turns = await self._try_pairs()
        if self._speed and here > 1:
            await self._measure()
        if self._torch and here > 1:
            await self._reduce()
        return NetCheck(
            world=self._at.world,
            nodes=tuple(self._nodes[number] for number in sorted(self._nodes)),
            probes=tuple(self._probes[key] for key in sorted(self._probes)),
            rounds=turns,
            speeds=tuple(self._speeds),
            collectives=tuple(self._collectives),
            lost=tuple(self._lost[number] for number in sorted(self._lost)),
            stages=tuple(self._stages),
            misnamed=tuple(self._misnamed),
        )

    async def end(self, code: int, verdict: str) -> None:
        """Tell all how it ended, and let them go."""
        for streams in self._members.values():
            streams[1].write(encoded({"end": code, "verdict": verdict}))
        waiting = [one[1].drain() for one in self._members.values()]
        try:
            async with asyncio.timeout(10):
                await asyncio.gather(*waiting, return_exceptions=True)
                await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        await self.stop()

    async def stop(self) -> None:
        """Listen no more, and let go of all."""
        if self._server is not None:
            self._server.close()
        for task in list(self._joining):
            task.cancel()
        await asyncio.gather(*self._joining, return_exceptions=True)
        for streams in self._members.values():
            streams[1].close()  # what was written last still goes

    async def _take_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str((writer.get_extra_info("peername") or ("?",))[0]).removeprefix("::ffff:")
        try:
            await self._welcome(reader, writer)
        except (WireError, TimeoutError, OSError, asyncio.LimitOverrunError) as error:
            if len(self.strangers) < 32:
                self.strangers[peer] = str(error) or "it said nothing"
            close((reader, writer))
        except asyncio.CancelledError:
            close((reader, writer))

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = secrets.token_hex(16)
        writer.write(BANNER + nonce.encode() + b"\n")
        asked = await read_line(reader, self._at.seconds * 2)
        refusal = None
        number = asked.get("number")
        if not proves(self._at.token, nonce, "member", asked.get("proof")):
            refusal = "it has another token than node 0: another job's, or another --token"
        elif asked.get("world") != self._at.world:
            refusal = (
                f"node 0 waits for {self._at.world} nodes, it for {str(asked.get('world'))[:9]}"
            )
        elif type(number) is not int or not 0 <= number < self._at.world:
            refusal = f"{str(number)[:9]} is not the number of a node"
        elif number in self._members:
            known = self._nodes.get(number)
            refusal = f"there is a node {number} already ({known.host if known else 'joining'})"
        if refusal is not None:
            writer.write(encoded({"refused": refusal}))
            await writer.drain()
            await reader.read(1)
            raise WireError(refusal)
        assert isinstance(number, int)
        # From here on it may say as much as the facts of a node take; asyncio has no other way.
        setattr(reader, "_limit", LONG_LINE)  # noqa: B010
        self._members[number] = reader, writer
        try:
            answer = proof(self._at.token, str(asked.get("nonce")), "coordinator")
            writer.write(encoded({"proof": answer}))
            node = decode(Node, (await read_line(reader, self._at.seconds * 4)).get("node"))
        except BaseException:
            del self._members[number]
            raise
        self._nodes[number] = replace(node, number=number)
        self._say(f"{len(self._nodes)} of {self._at.world} nodes are here")
        if len(self._nodes) == self._at.world:
            self._all_here.set()

    async def _introduce(self) -> None:
        """Tell each of all others; they say whose names lead elsewhere with them."""
        began = time.monotonic()
        message: dict[str, object] = {"do": "peers", "nodes": list(self._nodes.values())}
        asked = dict.fromkeys(self._nodes, message)
        answers = await self._ask_all(asked, StageName.NAMES, 60, tuple[Misnamed, ...])
        for found in answers.values():
            self._misnamed += found
        self._stage(StageName.NAMES, began, failed=len(self._misnamed))

    async def _ask_all(
        self, asked: dict[int, dict[str, object]], stage: StageName, seconds: float, rows: type[T]
    ) -> dict[int, T]:
        """Ask several at once for `rows`; who does not answer so, and in time, is lost."""

        async def one(number: int, message: dict[str, object]) -> T | None:
            reader, writer = self._members[number]
            try:
                writer.write(encoded(message))
                reply = await read_line(reader, seconds)
                if reply.get("did") != message["do"]:
                    raise WireError("answered something else")
                return decode(rows, reply.get("rows"))
            except TimeoutError:
                how, said = Parting.SILENT, None
            except OSError:
                how, said = Parting.LEFT, None
            except (WireError, asyncio.LimitOverrunError) as error:
                how, said = Parting.REFUSED, str(error)
            self._lose(number, how, stage, said)
            return None

        here = [number for number in asked if number in self._members]
        found = await asyncio.gather(*(one(number, asked[number]) for number in here))
        return {number: told for number, told in zip(here, found, strict=True) if told is not None}

    def _lose(self, number: int, how: Parting, stage: StageName, said: str | None) -> None:
        host = self._nodes[number].host if number in self._nodes else None
        self._lost[number] = Lost(number, host, how, stage, said)
        streams = self._members.pop(number, None)
        if streams is not None:
            close(streams)

    async def _try_pairs(self) -> int:
        began = time.monotonic()
        turns = rounds.how_many(self._at.world)
        for turn in range(turns):
            gone = set(range(self._at.world)) - self._members.keys() | self._given_up()
            asked: dict[int, dict[str, object]] = {}
            for number in self._members:
                if number in gone:
                    continue
                found = rounds.partners(number, self._at.world, turn)
                targets = rounds.left_to_try(found, gone)
                if targets:
                    asked[number] = {"do": "probe", "targets": targets}
            most = self._at.world
            await self._keep(asked, self._at.seconds * 6 * (1 + most / 128) + 20)
            self._say(f"round {turn + 1} of {turns}: {len(self._probes)} tries, {self._bad()} bad")
        await self._try_again()
        tries = len(self._probes)
        self._stage(StageName.PAIRS, began, count=tries, failed=self._bad(), rounds=turns)
        return turns

    async def _keep(self, asked: dict[int, dict[str, object]], seconds: float) -> None:
        answers = await self._ask_all(asked, StageName.PAIRS, seconds, tuple[Probe, ...])
        for number, probes in answers.items():
            if any(probe.source != number for probe in probes):
                self._lose(number, Parting.REFUSED, StageName.PAIRS, "spoke for another node")
                continue
            self._probes |= {(number, one.target, one.way): one for one in probes}

    def _given_up(self) -> set[int]:
        tried: dict[int, tuple[int, int]] = {}
        for probe in self._probes.values():
            for number in (probe.source, probe.target):
                count, good = tried.get(number, (0, 0))
                tried[number] = count + 1, good + (probe.met is Met.OK)
        return rounds.given_up(tried)

    def _bad(self) -> int:
        return sum(probe.met is not Met.OK for probe in self._probes.values())

    async def _try_again(self) -> None:
        """Try once more what failed: a packet may be lost, a node may be busy."""
        failed = [probe for probe in self._probes.values() if probe.met is not Met.OK]
        asked: dict[int, dict[str, object]] = {}
        for number in {probe.source for probe in failed[:_MOST_AGAIN]}:
            mine = [probe for probe in failed[:_MOST_AGAIN] if probe.source == number]
            asked[number] = {"do": "again", "probes": mine}
        if not asked:
            return
        most = max(len(self._probes) // max(1, len(self._nodes)), 1)
        await self._keep(asked, self._at.seconds * 18 * (1 + most / 128) + 20)
        large = [probe for probe in self._probes.values() if probe.met in LARGE]
        for probe in large[:_MOST_LARGEST]:
            await self._keep(
                {probe.source: {"do": "largest", "probe": probe}}, self._at.seconds * 30
            )

    async def _measure(self) -> None:
        """Measure throughput in pairs, each node busy with one other."""
        began = time.monotonic()
        gone = set(range(self._at.world)) - self._members.keys() | self._given_up()
        for turn in range(rounds.how_many(self._at.world)):
            asked: dict[int, dict[str, object]] = {}
            for number in self._members:
                other = rounds.partner(number, self._at.world, turn)
                if other is None or number > other or {number, other} & gone:
                    continue
                asked[number] = {"do": "flood", "target": other, "bytes": FLOOD}
            seconds = self._at.seconds * 10
            answers = await self._ask_all(asked, StageName.SPEED, seconds, tuple[Speed, ...])
            for found in answers.values():
                self._speeds += found
        self._stage(StageName.SPEED, began, count=len(self._speeds))

    async def _reduce(self) -> None:
        began = time.monotonic()
        here = sorted(self._members)
        lacking = [self._nodes[number].label for number in here if not self._nodes[number].torch]
        if lacking:
            self._skip(StageName.GLOO, lacking)
            return
        bare = [self._nodes[number].label for number in here if not self._nodes[number].gpu]
        for backend in (StageName.GLOO,) if bare else (StageName.GLOO, StageName.NCCL):
            place = Place(backend, self._at.host, _free_port(), tuple(here), 30.0)
            message: dict[str, object] = {"do": "collective", "place": place}
            self._say(f"{backend}: an all-reduce of {len(here)} nodes")
            asked = dict.fromkeys(here, message)
            answers = await self._ask_all(asked, backend, 240, tuple[Collective, ...])
            found = [one for told in answers.values() for one in told]
            self._collectives += found
            bad = len(here) - sum(one.stage == "done" for one in found)
            self._stage(backend, began, count=len(here), failed=bad)
            began = time.monotonic()
        if bare:
            self._skip(StageName.NCCL, bare)

    def _stage(
        self, name: StageName, began: float, *, count: int = 0, failed: int = 0, rounds: int = 0
    ) -> None:
        took = time.monotonic() - began
        self._stages.append(Stage(name, "failed" if failed else "ok", took, count, rounds, failed))

    def _skip(self, name: StageName, lacking: list[str]) -> None:
        self._stages.append(Stage(name, "skipped", 0.0, lacking=tuple(lacking)))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
