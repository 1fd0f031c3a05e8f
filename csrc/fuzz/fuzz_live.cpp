// Any text as /proc/PID/maps, and any bytes behind it as registers and auxiliary vector: the head
// of a core that is made of them must read as what went in.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "live/head.h"

namespace {

using pm::Bytes;
using pm::live::Mapping;

void check(bool holds) {
  if (!holds) std::abort();
}

std::vector<pm::live::ThreadRegisters> threads_of(Bytes bytes) {
  std::vector<pm::live::ThreadRegisters> found;
  pm::Cursor cursor(bytes);
  while (cursor.left() >= 16 && found.size() < 64) {
    pm::live::ThreadRegisters thread;
    thread.tid = cursor.get<std::int32_t>();
    thread.registers.machine = pm::live::own_machine();
    for (auto& value : thread.registers.values) value = cursor.left() >= 8 ? cursor.u64() : 0;
    found.push_back(thread);
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view text = all.substr(0, all.find('\0'));
  const Bytes rest(data + text.size(), size - text.size());
  const std::vector<Mapping> maps = pm::live::parse_maps(text);
  for (const Mapping& map : maps) check(map.start < map.end);
  const auto threads = threads_of(rest);
  try {
    const auto head = pm::live::make_head({1, 0, 0, "fuzz", std::string(text.substr(0, 100))}, maps,
                                          threads, pm::as_text(rest));
    check(head.core->threads().size() == threads.size());
    for (std::size_t i = 0; i < threads.size(); ++i) {
      const auto& read = head.core->threads()[i].registers;
      for (std::size_t k = 0; k < read.count(); ++k) {
        check(read.values[k] == threads[i].registers.values[k]);
      }
    }
    check(head.core->process().has_value() && head.core->process()->pid == 1);
    check(head.core->segments().size() <= maps.size());
  } catch (const pm::EvidenceError&) {
    check(maps.empty());
  }
  return 0;
}
