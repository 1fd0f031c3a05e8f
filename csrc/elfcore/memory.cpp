// Memory of the process: what the core has, else what a file has that cannot have been changed.
#include <algorithm>

#include "elfcore/modules.h"

namespace pm::elfcore {

Bytes Memory::at(std::uint64_t address) const noexcept {
  const Bytes dumped = core_.dumped_at(address);
  if (!dumped.empty()) return dumped;
  // What is not in the core is still as it is in the file only if it could not be changed: not in
  // a writable mapping, and not in one that the dump promised (relocated, then made read-only) but
  // lost by being cut off.
  if (const Segment* const segment = core_.segment_at(address)) {
    const bool lost = address - segment->start < segment->dumped;
    if ((segment->flags & kWrite) || (lost && !(segment->flags & kExecute))) return {};
  }
  const Module* const module = modules_.at(address);
  if (!module || !module->image) return {};
  const FileMapping* const file = core_.file_at(address);
  if (!file) return {};
  const std::uint64_t skip = address - file->start;
  return clip(module->image->bytes(), file->offset + skip, file->end - address);
}

bool Memory::read(std::uint64_t address, std::span<std::uint8_t> out) const noexcept {
  if (MemoryWatch* const watch = core_.watch()) watch->on_read(address, out.size());
  std::size_t done = 0;
  while (done < out.size()) {
    if (address > UINT64_MAX - done) return false;
    const Bytes part = at(address + done);
    if (part.empty()) return false;
    const std::size_t size = std::min(part.size(), out.size() - done);
    std::copy_n(part.begin(), size, out.begin() + static_cast<std::ptrdiff_t>(done));
    done += size;
  }
  return true;
}

std::optional<std::string> Memory::text(std::uint64_t address, std::size_t limit) const {
  std::string result;
  while (result.size() < limit) {
    const Bytes part = clip(at(address + result.size()), 0, limit - result.size());
    if (part.empty()) return std::nullopt;
    const std::string_view view = as_text(part);
    const std::size_t end = view.find('\0');
    result += view.substr(0, end);
    if (end != std::string_view::npos) return result;
  }
  return result;
}

}  // namespace pm::elfcore
