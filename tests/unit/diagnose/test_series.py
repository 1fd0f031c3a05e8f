"""Series of checkpoints: which files are one, in which order, and where bad values begin."""

from postmortem.diagnose.tensors.series import series
from postmortem.facts.tensors import ScannedTensor, Tensors


def tensor(file: str, name: str = "w", bad: int = 0) -> ScannedTensor:
    return ScannedTensor(name, file, "float32", (4,), 4, 0.0, 1.0, 1.0, 1.0, bad, 0, 0, 0, None)


def of(*tensors: ScannedTensor) -> Tensors:
    return Tensors(tuple(tensors))


def test_files_are_put_in_the_order_of_their_numbers() -> None:
    found = series(of(tensor("step_100.pt", bad=1), tensor("step_20.pt"), tensor("step_9.pt")))
    assert found is not None
    assert found.files == ("step_9.pt", "step_20.pt", "step_100.pt")
    assert (found.last_clean, found.first_bad) == ("step_20.pt", "step_100.pt")


def test_shards_of_one_checkpoint_are_no_series() -> None:
    assert series(of(tensor("m-1-of-2.pt", "a"), tensor("m-2-of-2.pt", "b", bad=1))) is None


def test_other_models_and_names_without_numbers_are_no_series() -> None:
    assert series(of(tensor("a1.pt", "x"), tensor("a2.pt", "y"))) is None
    assert series(of(tensor("old.pt"), tensor("new.pt", bad=1))) is None
    assert series(of(tensor("only_1.pt", bad=1))) is None
