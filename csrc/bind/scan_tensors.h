// Tensors of other libraries to arrays that can be scanned.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>
#include <vector>

#include "bind/dlpack.h"
#include "scan/scan.h"

namespace pm::bind {

// An array with room for its own shape and strides: the tensor may be changed while the interpreter
// is left to other threads.
struct Held {
  scan::Array array;
  const char* dtype = nullptr;
  std::int32_t device = -1;  // of CUDA, with `stream`; -1 for this machine's memory
  void* stream = nullptr;

  Held() noexcept {}  // leaves few_ as it is: to zero it costs as much as to fill it

  // Copies shape, whose element_count() is `count`, and strides if they are not those of C order;
  // both may be null for rank 0.
  void lay_out(const std::int64_t* shape, const std::int64_t* strides, std::size_t rank,
               std::uint64_t count);

 private:
  std::int64_t few_[16];
  std::vector<std::int64_t> many_;
};

// Sets the data type of an array by its name in PyTorch; false if there is none of this name.
bool name_dtype(std::string_view dtype, Held& held);

// Leaving the interpreter costs 40 ns: what is smaller is scanned without that.
inline constexpr std::uint64_t kReleaseBytes = 32 << 10;

enum class Taken { yes, on_cuda, no, error };

// Takes a tensor whose exact type trust_type() was called for, if it lies in this machine's memory
// and has a data type that is known; if it lies in a GPU's, its stream is taken too. `no`: someone
// else must look at it. An address that is unlikely is asked about, which may run Python code; it
// is `no` too where that must not be.
Taken take_trusted(PyObject* object, Held& held, bool may_call = true);

// Whether trust_type() was called for exactly this object's type.
bool is_trusted(PyObject* object);

// METH_VARARGS: trust_type(type, capsule). Objects of exactly this type are read through the
// exchange API of DLPack in the capsule.
PyObject* trust_type(PyObject*, PyObject* args);

// Takes a tensor in a capsule of __dlpack__(); the capsule stays the caller's.
Taken take_capsule(PyObject* capsule, Held& held);

void register_scan_file(pybind11::module_& module);

}  // namespace pm::bind
