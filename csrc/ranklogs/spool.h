// Clean text on its way to the sink, so much at a time of each writer.
#pragma once

#include <cstdint>
#include <string_view>

#include "ranklogs/writers.h"

namespace pm::ranklogs {

class Spool {
 public:
  Spool(const Sink& sink, Writers& writers) : sink_(sink), writers_(writers) {}

  void take(std::uint32_t index, std::string_view text);
  void spill(std::uint32_t index);

 private:
  const Sink& sink_;
  Writers& writers_;
  std::size_t pending_bytes_ = 0;
};

}  // namespace pm::ranklogs
