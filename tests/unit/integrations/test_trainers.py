"""The callbacks under the real trainers."""

import math
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from postmortem.monitor.errors import NumericsError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class Net(torch.nn.Module):
    """A layer that goes bad in a call, or in a step."""

    def __init__(self, bad_call: int = -1) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.calls, self.bad_call = 0, bad_call

    def forward(self, x: Any, labels: Any = None) -> Any:
        y = self.layer(x * math.nan if self.calls == self.bad_call else x)
        self.calls += 1
        return {"loss": (y - labels).square().mean(), "logits": y}


class Data(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, at: int) -> Any:
        return {"x": torch.ones(4) * at / 16, "labels": torch.ones(1)}


def hf_trainer(model: Any, folder: Path, callback: Any) -> Any:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=4, max_steps=4, save_steps=2,
        report_to=[], use_cpu=True, disable_tqdm=True, gradient_accumulation_steps=2,
    )  # fmt: skip
    return Trainer(model, arguments, train_dataset=Data(), callbacks=[callback])


def hf_callback(**options: Any) -> Any:
    pytest.importorskip("transformers")
    from postmortem.integrations.hf import NumericsCallback

    return NumericsCallback(**options)


def test_hf_trainer_is_watched(tmp_path: Path) -> None:
    callback = hf_callback(flight=tmp_path)
    hf_trainer(Net(), tmp_path, callback).train()
    assert callback.monitor.batch == 8
    assert callback.monitor.first_bad is None
    assert (tmp_path / "checkpoint-4").is_dir()


def test_hf_trainer_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = hf_trainer(Net(bad_call=5), tmp_path, hf_callback())
    with pytest.raises(NumericsError) as raised:
        trainer.train()
    found = raised.value.first_bad
    assert found is not None
    assert (found.module, found.batch) == ("layer", 5)
    assert "Detected inf/nan during batch_number=5" in capsys.readouterr().out


def test_hf_trainer_writes_no_bad_checkpoint(tmp_path: Path, prose: Prose) -> None:
    callback = hf_callback(on_bad="report")
    trainer = hf_trainer(Net(bad_call=5), tmp_path, callback)
    with pytest.raises(NumericsError) as refused:
        trainer.train()
    prose(refused.value)
    assert [p.name for p in tmp_path.glob("checkpoint-*")] == ["checkpoint-2"]


def lightning_run(folder: Path, bad_call: int, *, checked: bool = False, **options: Any) -> Any:
    lightning = pytest.importorskip("lightning.pytorch")
    from postmortem.integrations.lightning import NumericsCallback

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net(bad_call)

        def training_step(self, batch: Any, at: int) -> Any:
            return self.net(**batch)["loss"]

        def validation_step(self, batch: Any, at: int) -> Any:
            return self.net(**batch)["loss"]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = NumericsCallback(**options)
    saving = lightning.callbacks.ModelCheckpoint(folder, every_n_train_steps=2, save_top_k=-1)
    trainer = lightning.Trainer(
        max_steps=4, accelerator="cpu", logger=False, callbacks=[callback, saving],
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    try:
        batches = torch.utils.data.DataLoader(Data(), batch_size=4)
        trainer.fit(Module(), batches, batches if checked else None)
    except NumericsError as error:
        return callback.monitor, error
    return callback.monitor, None


def test_lightning_is_watched(tmp_path: Path) -> None:
    monitor, error = lightning_run(tmp_path, -1)
    assert error is None
    assert monitor.batch in (3, 4)  # the last one ends with the training
    assert len(list(tmp_path.glob("*.ckpt"))) == 2


def test_lightning_is_stopped(tmp_path: Path) -> None:
    _, error = lightning_run(tmp_path, 2)
    assert error is not None
    assert (error.first_bad.module, error.first_bad.batch) == ("net.layer", 2)


def test_lightnings_sanity_check_counts_no_batches(tmp_path: Path) -> None:
    _, error = lightning_run(tmp_path, 2 + 2, checked=True)  # two calls are the check's
    assert error is not None
    assert (error.first_bad.module, error.first_bad.batch) == ("net.layer", 2)


def test_lightning_writes_no_bad_checkpoint(tmp_path: Path, prose: Prose) -> None:
    _, error = lightning_run(tmp_path, 2, on_bad="report")
    prose(str(error))
    assert len(list(tmp_path.glob("*.ckpt"))) == 1
