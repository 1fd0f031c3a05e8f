#include "bind/stacks.h"

#include <algorithm>

#include "bind/values.h"
#include "unwind/debug_files.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

// A crafted core of a million threads must not become a billion Python objects; a thousand honest
// threads have room for 500 frames each.
constexpr std::size_t kMaxKeptFrames = 500'000;

const char* trust_name(unwind::Trust trust) {
  switch (trust) {
    case unwind::Trust::context:
      return "context";
    case unwind::Trust::cfi:
      return "cfi";
    case unwind::Trust::frame_pointer:
      return "frame_pointer";
    case unwind::Trust::scan:
      break;
  }
  return "scan";
}

py::dict frame_row(const unwind::Frame& frame, const Stacks& stacks,
                   const elfcore::Modules& modules) {
  py::dict row;
  row["pc"] = frame.pc;
  row["trust"] = trust_name(frame.trust);
  const auto module = modules.index_at(frame.lookup());
  row["module"] = optional_int(module);
  row["module_offset"] =
      module ? py::object(py::int_(frame.pc - modules.all()[*module].bias)) : py::none();
  const unwind::Symbol* const symbol =
      frame.signal_frame ? nullptr : stacks.names->find(frame.lookup());
  if (frame.signal_frame) {
    row["function"] = text("<signal handler called>");  // gdb's words, known to everybody
  } else {
    row["function"] = symbol ? py::object(text(symbol->name)) : py::none();
  }
  const auto places = stacks.places.find(frame.lookup());
  const bool told = !frame.signal_frame && places != stacks.places.end();
  row["places"] = told ? py::object(place_rows(places->second)) : py::none();
  row["function_offset"] = symbol ? py::object(py::int_(frame.pc - symbol->start)) : py::none();
  return row;
}

// Looks up the source lines of sorted addresses, file by file: a core may say that one was mapped
// any number of times.
void read_places(const elfcore::Modules& modules, const std::string& sysroot,
                 const std::vector<std::uint64_t>& addresses, Stacks& stacks) {
  using At = std::pair<std::uint64_t, std::uint64_t>;  // link-time, run-time
  std::unordered_map<const elfcore::Image*, std::pair<const elfcore::Module*, std::vector<At>>>
      files;
  for (const std::uint64_t address : addresses) {
    const elfcore::Module* const module = modules.at(address);
    if (!module || !module->image) continue;
    auto& [first, inside] = files[module->image.get()];
    if (!first) first = module;
    inside.emplace_back(address - module->bias, address);
  }
  for (auto& [image, file] : files) {
    const auto debug = unwind::debug_image(*file.first, sysroot);
    if (!debug) continue;
    std::sort(file.second.begin(), file.second.end());
    std::vector<std::uint64_t> linked;
    for (const At& at : file.second) {
      if (linked.empty() || linked.back() != at.first) linked.push_back(at.first);
    }
    const auto places = dwarf::source_lines(debug, linked);
    auto at = file.second.begin();
    for (std::size_t k = 0; k < places.size(); ++k) {
      for (; at != file.second.end() && at->first == linked[k]; ++at) {
        if (!places[k].empty()) stacks.places.emplace(at->second, places[k]);
      }
    }
  }
}

}  // namespace

Stacks read_stacks(const elfcore::Memory& memory, const std::string& sysroot,
                   std::size_t max_frames) {
  Stacks result;
  unwind::Unwinder unwinder(memory);
  std::vector<std::uint64_t> addresses;
  std::size_t room = kMaxKeptFrames;
  for (const elfcore::ThreadState& thread : memory.core().threads()) {
    result.threads.push_back(unwinder.unwind(thread, std::min(max_frames, room)));
    room -= std::min(room, result.threads.back().frames.size());
    for (const unwind::Frame& frame : result.threads.back().frames) {
      addresses.push_back(frame.lookup());
    }
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  read_places(memory.modules(), sysroot, addresses, result);
  result.names = std::make_unique<unwind::Symbolizer>(memory, sysroot);
  result.names->resolve(std::move(addresses));
  return result;
}

py::dict StackRows::frame(const unwind::Frame& frame, const Key& key) {
  const auto known = frames_.find(key);
  if (known != frames_.end()) return known->second;
  return frames_.emplace(key, frame_row(frame, stacks_, modules_)).first->second;
}

void StackRows::add(py::dict& row, std::size_t thread) {
  static const unwind::Stack kNone{};
  const unwind::Stack& stack = thread < stacks_.threads.size() ? stacks_.threads[thread] : kNone;
  std::vector<Key> keys;
  keys.reserve(stack.frames.size());
  for (const unwind::Frame& found : stack.frames) {
    const auto how = static_cast<std::uint32_t>(found.trust);
    keys.emplace_back(found.pc,
                      how << 2 | (found.exact ? 2u : 0u) | (found.signal_frame ? 1u : 0u));
  }
  const auto [place, is_new] = lists_.try_emplace(std::move(keys));
  if (is_new) {
    std::size_t at = 0;
    for (const unwind::Frame& found : stack.frames) {
      place->second.append(frame(found, place->first[at++]));
    }
  }
  row["frames"] = place->second;
  row["stopped"] = text_or_none(stack.stopped);
  row["skipped"] = stack.skipped;
  row["skipped_at"] = stack.skipped > 0 ? py::object(py::int_(stack.skipped_at)) : py::none();
}

}  // namespace pm::bind
