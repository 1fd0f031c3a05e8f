// The kernel's asynchronous input and output as libaio uses it (io_submit(2), io_getevents(2)): the
// call that learns of a failure works, and neither it nor its result names the file.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
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

// What was asked for and has not ended, by process.
class AioRequests {
 public:
  // io_submit(0x7fc93c163000, 1, [{aio_data=0, …, aio_fildes=6</m/a>, …}]) = 1
  void submitted(std::uint32_t process, const Event& event);
  // io_getevents(0x7fc93c163000, 1, 1, [{data=0, …, res=65536, res2=0}], NULL) = 1
  void reaped(std::uint32_t process, const Event& event);
  // The ends of a call, of which some failed. Valid until the next one is taken apart.
  const std::vector<AioEnd>& take_apart(std::string_view arguments);
  // The request that failed: the one that `b` of the event says of the call last taken apart, or
  // the first one of its call; null where that is not known. An end has the number that the program
  // gave its request. Of several with one number the oldest is meant, as files end them in order
  // where they do not wait for a disk; where these are of several files, that is a guess.
  const AioRequest* failed(std::uint32_t process, const Event& event, std::string_view arguments,
                           bool& guessed);

 private:
  std::unordered_map<std::uint32_t, std::deque<AioRequest>> requests_;
  std::vector<AioEnd> ends_;  // of the call that is being taken apart
};

// Adds the ends among the arguments of an io_getevents(), or among their second half alone.
void read_ends(std::string_view arguments, std::vector<AioEnd>& ends);

// Gives a result the error of what failed first among the ends that its call brought.
void fail_within(Result& result, std::string_view arguments);

// Whether a query may hold for one of the requests that failed.
bool may_hold_within(const std::vector<Query>& queries, const Event& event);

}  // namespace pm::strace
