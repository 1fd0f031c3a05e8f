// What _scan asks of _cuda, handed over in a capsule: neither module links the other.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "scan/scan.h"

namespace pm::bind {

struct CudaTensor {
  scan::Array array;
  std::int32_t device;
  void* stream;
};

enum class Launched { yes, no, error };  // no: ask Python, which has other ways

struct CudaScanner {
  // Scans tensors of one device and stream. Gives for each a new reference to an object that, when
  // called, waits for the numbers and gives them as ScanResult._later() wants them.
  Launched (*scan)(const CudaTensor* tensors, std::size_t count, PyObject** pending);
};

constexpr const char* kCudaScanner = "postmortem.cuda_scanner";

}  // namespace pm::bind
