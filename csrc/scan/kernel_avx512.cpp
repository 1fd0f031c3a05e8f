// AVX-512 F, BW, DQ and VL (x86-64-v4).
#define PM_LEVEL avx512
#define PM_BYTES 64
#include "scan/kernel.inc"
