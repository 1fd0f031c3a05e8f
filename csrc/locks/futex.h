// Threads that wait in futex(2): on which word, and what the word and its neighbours say.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "elfcore/modules.h"

namespace pm::locks {

// A wait in the kernel. Operations and arguments: futex(2), include/uapi/linux/futex.h.
struct FutexWait {
  std::int32_t tid = 0;
  std::uint64_t address = 0;
  std::uint32_t operation = 0;  // FUTEX_WAIT, FUTEX_LOCK_PI, ... without the flags
  bool timed = false;           // it ends by itself some time
  bool shared = false;          // another process may wake it: a file's memory, no private flag
  std::uint32_t expected = 0;   // what the word held when the wait began; 0 for the PI operations
  // The word itself and the four behind it, where they are in the core: of a pthread_mutex_t of
  // glibc these are lock, count, owner, number of users and kind (struct __pthread_mutex_s).
  std::optional<std::array<std::uint32_t, 5>> words;
  // CPython 3.13 and later: the word is a semaphore of the thread's own, on its stack, in an entry
  // of the parking lot that says what is waited for (a PyMutex); 0: it is no such entry.
  std::uint64_t parked = 0;
};

}  // namespace pm::locks

namespace pm {

template <>
inline constexpr auto kFields<locks::FutexWait> = std::tuple(
    field("tid", &locks::FutexWait::tid), field("address", &locks::FutexWait::address),
    field("operation", &locks::FutexWait::operation),
    field("expected", &locks::FutexWait::expected), field("timed", &locks::FutexWait::timed),
    field("shared", &locks::FutexWait::shared), field("parked", &locks::FutexWait::parked),
    field("words", &locks::FutexWait::words));

}  // namespace pm

namespace pm::locks {

// One row for each thread that stands in such a wait, in the order of the core's threads.
std::vector<FutexWait> read_futex_waits(const elfcore::Memory& memory);

}  // namespace pm::locks
