// The kernel's asynchronous input and output as libaio uses it (io_submit(2), io_getevents(2)): the
// call that learns of a failure works, and neither it nor its result names the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strace/extract.h"

namespace pm::strace {

// One request of an io_submit(): what its end will be known by, and the descriptor it is for.
struct AioRequest {
  std::uint64_t context = 0;
  std::uint64_t data = 0;
  std::int64_t fd = -1;
  std::string annotation;
  bool deleted = false;
};

// One end of an io_getevents(): `{data=0, obj=0x563c041ca148, res=-28, res2=0}`.
struct AioEnd {
  std::uint64_t context = 0;
  std::uint64_t data = 0;
  std::int64_t result = 0;
  std::string_view error;  // ENOSPC; empty where it worked, or the number is none that we know
};

// Adds the ends among the arguments of an io_getevents(), or among their second half alone.
void read_ends(std::string_view arguments, std::vector<AioEnd>& ends);

// Gives a result the error of what failed first among the ends that its call brought.
void fail_within(Result& result, std::string_view arguments);

// Whether a query may hold for one of the requests that failed.
bool may_hold_within(const std::vector<Query>& queries, const Event& event);

}  // namespace pm::strace
