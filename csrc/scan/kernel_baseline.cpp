// SSE4.2 (x86-64-v2), and NEON on aarch64: the least that is built.
#define PM_LEVEL baseline
#define PM_BYTES 16
#include "scan/kernel.inc"
