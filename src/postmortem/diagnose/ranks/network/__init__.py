"""Rules over what NCCL says of the network."""
