"""Where something was seen, as a card says it."""

import pytest

from postmortem.present.triage.card import seen_at


@pytest.mark.parametrize(
    ("others", "told"),
    [(("/c/n2/core",), "n1/core:3"), (("/c/n2/core.7",), "core:3"), ((), "core:3")],
)
def test_of_files_of_one_name_the_folder_is_told(others: tuple[str, ...], told: str) -> None:
    documents = [{"inputs": [{"path": path}]} for path in ("/c/n1/core", *others)]
    assert seen_at("/c/n1/core:3", documents) == told
