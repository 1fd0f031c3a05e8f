"""The GPU: CUDA errors and the driver."""
