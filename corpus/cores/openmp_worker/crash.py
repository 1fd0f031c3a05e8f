"""The second half of a mapped file is gone; the threads that sum it up find out."""

import os

import torch

COUNT = 1 << 24

torch.set_num_threads(4)


def validate(weights: torch.Tensor) -> torch.Tensor:
    return torch.empty(COUNT).copy_(weights * 2)


def resume() -> None:
    with open("weights.bin", "wb") as file:
        file.truncate(COUNT * 4)
    weights = torch.from_file("weights.bin", shared=True, size=COUNT)
    os.truncate("weights.bin", COUNT * 3)
    print(validate(weights))


resume()
