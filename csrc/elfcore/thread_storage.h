// Where a module's thread-local variables lie in a thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "elfcore/modules.h"

namespace pm::elfcore {

// Addresses at which the thread-local block of `module` may begin in `thread`: more than one where
// the module's relocations do not say which of their variables they mean. Empty: the thread has
// none yet (it is made on first use), or it cannot be found.
//
// No symbol and no r_debug is needed: the dynamic linker has left the module's number, or the
// distance from the thread pointer, in the GOT slots of relocations without a symbol.
// ELF Handling For Thread-Local Storage (Drepper); TLSDESC: Oliva and Araujo, 2006.
struct ThreadStorage {
  std::vector<std::uint64_t> blocks;
  bool known = false;  // false: nothing says where the block would be
};
ThreadStorage find_thread_storage(const Memory& memory, const Module& module,
                                  const ThreadState& thread);

}  // namespace pm::elfcore
