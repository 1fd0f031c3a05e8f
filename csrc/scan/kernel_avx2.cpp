// AVX2 (x86-64-v3).
#define PM_LEVEL avx2
#define PM_BYTES 32
#include "scan/kernel.inc"
