"""`postmortem run --numerics` under real trainers: no line of the program knows of the monitor."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(400)]

RUN = [sys.executable, "-m", "postmortem", "run"]
# No garbage is looked for while PyTorch is imported, nor later in what that leaves: a third less.
# And an optimizer imports the compiler, which takes as long again, to say what is not compiled.
MODEL = """
import math, sys, types
import gc; gc.disable(); import torch; gc.freeze(); gc.enable()
sys.modules["torch._dynamo"] = torch._dynamo = types.ModuleType("torch._dynamo")
torch._dynamo.disable = lambda function, *_, **__: function
torch._dynamo.graph_break = lambda: None
torch._dynamo.OptimizedModule = type("OptimizedModule", (), {})
torch._dynamo.eval_frame = torch._dynamo
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 1)
        self.calls = 0
    def forward(self, x, labels):
        self.calls += 1
        if self.calls == 3 and "bad" in sys.argv:
            with torch.no_grad():
                self.head.weight[0, 0] = math.nan
        y = self.head(self.body(x))
        return {"loss": (y - labels).square().mean(), "logits": y}
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, at):
        return {"x": torch.ones(4) * at / 16, "labels": torch.ones(1)}
net = Net()
"""
PLAIN = """
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for batch in torch.utils.data.DataLoader(Data(), 4):
    optimizer.zero_grad()
    net(**batch)["loss"].backward()
    optimizer.step()
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
net, optimizer, loader = accelerator.prepare(
    net, optimizer, torch.utils.data.DataLoader(Data(), 4)
)
for batch in loader:
    optimizer.zero_grad()
    accelerator.backward(net(**batch)["loss"])
    optimizer.step()
"""
TRANSFORMERS = """
del sys.modules["torch._dynamo"], torch._dynamo  # it asks for more of it
from transformers import Trainer, TrainingArguments
arguments = TrainingArguments(
    output_dir="out", per_device_train_batch_size=4, max_steps=4, save_strategy="no",
    report_to=[], use_cpu=True, disable_tqdm=True,
)
Trainer(net, arguments, train_dataset=Data()).train()
"""
LIGHTNING = """
import lightning.pytorch as pl
class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net
    def training_step(self, batch):
        return self.net(**batch)["loss"]
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
trainer = pl.Trainer(
    max_steps=4, accelerator="cpu", logger=False, enable_progress_bar=False,
    enable_checkpointing=False, enable_model_summary=False,
)
print("watched by", [type(one).__name__ for one in trainer.callbacks])
trainer.fit(Module(), torch.utils.data.DataLoader(Data(), 4))
"""
HOSTS = {
    "plain": (PLAIN, "torch"),
    "accelerate": (ACCELERATE, "accelerate"),
    "transformers": (TRANSFORMERS, "transformers"),
    "lightning": (LIGHTNING, "lightning"),
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("POSTMORTEM_RUN", "POSTMORTEM_NUMERICS", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    Path("train.py").write_text(MODEL + program)
    command = [*RUN, "--numerics", "--into", "left", "--", sys.executable, "train.py", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)


@pytest.mark.parametrize("host", HOSTS)
def test_the_module_is_named(host: str, place: Path) -> None:
    program, needed = HOSTS[host]
    if importlib.util.find_spec(needed) is None:  # to import it here takes as long as the program
        pytest.skip(f"no {needed} here")
    done = run(program, "bad")
    assert done.returncode == 1, done.stderr
    (folder,) = (place / "left").iterdir()
    said = json.loads((folder / "manifest.json").read_text())
    assert "head" in said["verdict"]
    assert said["conclusion"]["diagnoses"][0]["id"] == "numbers_first_bad"
    assert [one.name for one in (folder / "numerics").iterdir()] == ["rank0.flight"]
    # Lightning finds it by itself: it asks for entry points, and ours is installed.
    assert ("NumericsCallback" in done.stdout) == (host == "lightning")


def test_of_a_training_that_is_well_nothing_is_left(place: Path) -> None:
    pytest.importorskip("torch")
    done = run(PLAIN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [one.name for one in place.iterdir()] == ["train.py"]


def test_it_says_that_nothing_was_watched() -> None:
    done = run("sys.exit('nothing to train yet')")
    assert "--numerics: " in done.stderr


def test_lightning_finds_no_callback_unless_one_is_asked_for(place: Path) -> None:
    if importlib.util.find_spec("lightning") is None:
        pytest.skip("no lightning here")
    (place / "train.py").write_text(MODEL + LIGHTNING)
    done = subprocess.run(
        [sys.executable, "train.py"], capture_output=True, text=True, timeout=380, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "watched by" in done.stdout
    assert "NumericsCallback" not in done.stdout
