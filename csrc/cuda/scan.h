// What the CUDA scan offers: a C ABI without any type of CUDA. Streams are pointers, devices
// numbers.
//
// Nothing here waits for a device, but pm_cuda_scan() where all of a ring's 16,384 records are in
// flight: then it waits for the oldest. Nothing is allocated on a device but at its first use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/plan.h"
#include "cuda/slots.h"

extern "C" {

// Why the module cannot be used at all.
enum PmCudaUse : std::int32_t {
  kPmCudaUsable = 0,
  kPmCudaNoDriver = 1,
  kPmCudaOldDriver = 2,
  kPmCudaNoDevice = 3,
  kPmCudaBroken = 4,
};

struct PmCudaProbe {
  PmCudaUse use;
  std::int32_t driver;   // CUDA version that the driver knows: 13000 is 13.0; 0 if there is none
  std::int32_t runtime;  // that this was built with
  std::int32_t devices;
  char text[160];  // the runtime's own words
};

void pm_cuda_probe(PmCudaProbe* probe);

// Makes the state of a device: memory for accumulators and records, 6 MiB in all. The first scan on
// a device does it otherwise, also while its stream is being captured. Null, or why it cannot be.
const char* pm_cuda_prepare(std::int32_t device);

// Launches scans on a stream of a device; plans without elements are not to be given. Each gets its
// Pending, which must stay where it is until pm_cuda_let_go(). `row`, if any, is memory of the
// device for 8 doubles, and only for a single plan. Null, or what went wrong: nothing is pending
// then.
const char* pm_cuda_scan(std::int32_t device, void* stream, const pm::cuda::Plan* plans,
                         std::size_t count, double* row, pm::cuda::Pending* const* pending);

// Whether the numbers are here.
bool pm_cuda_look(std::int32_t device, pm::cuda::Pending* pending);
void pm_cuda_let_go(std::int32_t device, pm::cuda::Pending* pending);

// Null, or the error that this device's context is in: then no record will come.
const char* pm_cuda_health(std::int32_t device);

// The capabilities of the code in here, as text: "75 80 90".
const char* pm_cuda_architectures();
}
