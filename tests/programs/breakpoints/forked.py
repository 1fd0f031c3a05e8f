"""Torchrun's agent with four ranks that it forks, so that torch is imported once.

forked.py SCRIPT ARG...
"""

import gc
import runpy
import sys

gc.disable()  # importing torch takes half as long again with it
import torch.distributed
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

gc.freeze()
gc.enable()


def rank() -> None:
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=4,
        run_id="forked",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, rank)()
