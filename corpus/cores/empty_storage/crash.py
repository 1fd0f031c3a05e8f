"""The storage of a tensor is emptied, as sharding does, while a view of it is still used."""

import torch

torch.set_num_threads(1)


def train() -> torch.Tensor:
    weights = torch.ones(1 << 20)
    view = weights[1 << 18 :]
    weights.untyped_storage().resize_(0)
    return view.add_(1)


train()
