"""A sample crashes a DataLoader's worker; PyTorch's handler catches the signal and raises it."""

import ctypes
import sys

from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    """Sample 5 is broken."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return len(ctypes.string_at(0)) if index == 5 else index


if __name__ == "__main__":
    try:
        print(list(DataLoader(Images(), num_workers=1, multiprocessing_context="fork")))
    except (RuntimeError, OSError) as error:
        sys.exit(str(error))
