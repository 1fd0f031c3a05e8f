// C++ exceptions in flight, as the run-time library keeps them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "elfcore/modules.h"

namespace pm::elfcore {

struct CppException {
  std::int32_t tid = 0;
  std::string type;                 // in source form
  std::optional<std::string> what;  // nothing where the layout is not known
  const char* found_by = "tls";     // or "stack"
  // Or "uncaught": std::terminate() ran because of it; "unwinding": destructors were running on
  // its way to a handler.
  const char* state = "handled";
  std::vector<std::string> base_types;  // nearest first
};

// Where on a stack the code that calls abort() for std::terminate() comes back to, in a run-time
// library that is not here. Its handler, __terminate() and std::terminate() itself leave three
// return addresses into the library at these distances (libstdc++ of GCC 10 to 16, libc++abi of
// LLVM 19), on x86-64. What an earlier call has left can look the same.
std::optional<std::uint64_t> find_terminate(const Memory& memory, std::uint64_t sp);

// Exceptions of all threads, those of the crashed one first, in each the innermost first.
std::vector<CppException> find_cpp_exceptions(const Memory& memory, Problems& problems);

}  // namespace pm::elfcore
