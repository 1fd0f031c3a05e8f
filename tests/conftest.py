"""Fixtures and options that all tests share."""

import difflib
import gc
import os
import random
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from builders.prose import Prose

# A run has the same numbers and examples as any other run, however busy the machine is: what failed
# can be had again. To look for new ones: --hypothesis-profile=search.
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile("fixed")

# Inductor compiles in a pool of processes, which import PyTorch each, and compile little here.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# nohup and a shell's background jobs leave signals ignored, and every program that a test starts
# would keep it so.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGTERM, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite golden files with what the tests got, and show the difference",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have the collector of garbage not walk again and again over tests that stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_LANES = 2
"""Workers that begin with live tests: these wait a lot, and disturb each other if they are more."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files of live tests where some of the workers begin: none of them is left for the end.

    The scheduler gives each worker an equal part of the tests, in their order.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers <= _LANES:
        return
    folder, files = f"{Path(__file__).parent}/live/", dict[Path, list[pytest.Item]]()
    for item in items:
        files.setdefault(item.path, []).append(item)
    live = [tests for path, tests in files.items() if str(path).startswith(folder)]
    lanes = [[item for tests in live[i::_LANES] for item in tests] for i in range(_LANES)]
    rest = [item for item in items if not str(item.path).startswith(folder)]
    part = -(-len(items) // workers)
    ordered: list[pytest.Item] = []
    for lane in lanes:
        filled = max(0, part - len(lane))
        ordered += lane + rest[:filled]
        del rest[:filled]
    items[:] = ordered + rest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker whole files, so that what a file makes for its tests is made once.

    A worker that has nothing left takes half of what another has still to do. (`--dist worksteal`
    among the options would be refused where there are no workers.)
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Seed the generators that are loaded, before each test."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        # torch.manual_seed keeps a stack for each device that is not there: a millisecond a test.
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)


@pytest.fixture(autouse=True)
def nothing_refused_before() -> None:
    """Forget what an earlier test was refused: a process tells it at the end of its report."""
    if "postmortem.underway" in sys.modules:
        sys.modules["postmortem.underway"].refusals.clear()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares text with the file `golden/NAME` beside the test."""
    update: bool = request.config.getoption("--update-golden")
    folder = Path(request.path).parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / name
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if text == expected:
            return
        difference = "\n".join(
            difflib.unified_diff(
                expected.splitlines(), text.splitlines(), f"golden/{name}", "got", lineterm=""
            )
        )
        if not update:
            pytest.fail(f"{difference}\n\nif this is right: pytest --update-golden", pytrace=False)
        folder.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(difference)  # noqa: T201  pytest -rP shows it

    return compare


_SKIPPED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test was skipped, within its body too: then it has nothing to say."""
    report = yield
    if call.when == "call":
        item.stash[_SKIPPED] = report.skipped
    return report


@pytest.fixture
def prose(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prose]:
    """Return a function that takes the sentences which the golden file of this module holds."""
    path = Path(request.path)
    own = [request.getfixturevalue("tmp_path")] if "tmp_path" in request.fixturenames else []
    name = request.node.name
    if len(name) > 80 or not name.isprintable() or "\\" in name:
        indices = request.node.callspec.indices.values()
        name = f"{request.node.originalname}[{'-'.join(map(str, indices))}]"
    said = Prose(
        path.parent / "golden" / f"{path.stem}.txt", name, [*own, tmp_path_factory.getbasetemp()]
    )
    yield said
    if not request.node.stash.get(_SKIPPED, False):
        said.check(request.config.getoption("--update-golden"))
