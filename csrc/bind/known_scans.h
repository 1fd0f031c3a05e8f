// What scans of tensors found, for as long as the tensors do not change.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "scan/scan.h"

namespace pm::bind {

inline constexpr std::size_t kSlots = 1024;
inline constexpr std::size_t kMostRank = 6;

struct Known {
  const void* address = nullptr;
  PyObject* tensor = nullptr;  // a weak reference
  PyObject* result = nullptr;
  long long version = 0;
  std::uint64_t elements = 0;
  scan::Format format{};
  bool complex = false;
  bool in_order = true;
  std::size_t rank = 0;
  std::array<std::int64_t, 2 * kMostRank> layout{};
};

// The slot of an address.
std::size_t slot_of(const void* address);

// Forgets what a slot has.
void drop(Known& known);

// The tensor's version, or -1 where it counts none (inference mode).
long long version_of(PyObject* tensor);

// Whether what is known at this address is this tensor's memory, unchanged.
bool still_holds(const Known& known, PyObject* tensor, const scan::Array& array, long long version);

void remember(Known& known, PyObject* tensor, const scan::Array& array, long long version,
              PyObject* result);

// Makes the names that are asked for; false with a Python error if that fails.
bool init_known_scans();

}  // namespace pm::bind
