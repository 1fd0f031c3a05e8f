#include "unwind/symbols.h"

#include <algorithm>

#include "base/demangle.h"
#include "unwind/debug_files.h"
#include "unwind/go_names.h"
#include "unwind/split_function.h"
#include "unwind/symbol_tables.h"

namespace pm::unwind {

using elfcore::Module;

namespace {

// Without its name the Python frames could not be put where they belong on the native stack.
constexpr std::string_view kEvaluator = "_PyEval_EvalFrameDefault";

CodeRange cold_evaluator(const elfcore::Image& image) {
  const auto hot = image.dynamic_symbol(kEvaluator);
  if (!hot || hot->size > UINT64_MAX - hot->value) return {};
  return cold_part(image, {hot->value, hot->value + hot->size});
}

}  // namespace

Symbolizer::Symbolizer(const elfcore::Memory& memory, std::string sysroot)
    : memory_(memory), sysroot_(std::move(sysroot)), vdso_(Vdso::find(memory.core())) {}

void Symbolizer::resolve(std::vector<std::uint64_t> addresses) {
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  const auto slice = [&](std::uint64_t start, std::uint64_t end) {
    const auto first = std::lower_bound(addresses.begin(), addresses.end(), start);
    const auto last = std::lower_bound(first, addresses.end(), end);
    return std::span<const std::uint64_t>(first, last);
  };
  // In the order of the modules; one that a core names many times is read once for all of them.
  std::vector<std::pair<const Module*, std::vector<Linked>>> images;
  std::unordered_map<const elfcore::Image*, std::size_t> places;
  for (const Module& module : memory_.modules().all()) {
    const auto part = slice(module.start, module.end);
    // A module that lies below its bias would wrap around: only a crafted one does.
    if (part.empty() || !module.image || part.front() < module.bias) continue;
    const auto [place, is_new] = places.try_emplace(module.image.get(), images.size());
    if (is_new) images.push_back({&module, {}});
    for (const std::uint64_t address : part) {
      images[place->second].second.push_back({address - module.bias, module.bias});
    }
  }
  for (auto& [module, linked] : images) resolve_in(*module, std::move(linked));
  if (vdso_.image) resolve_in_vdso(slice(vdso_.start, vdso_.end));
}

void Symbolizer::resolve_in(const Module& module, std::vector<Linked> addresses) {
  std::sort(addresses.begin(), addresses.end());
  std::vector<std::uint64_t> linked;
  for (const Linked& one : addresses) {
    if (linked.empty() || linked.back() != one.address) linked.push_back(one.address);
  }
  SymbolSearch search(linked);
  search.read(*module.image);
  std::shared_ptr<const elfcore::Image> separate, mini;
  std::vector<std::uint8_t> mini_bytes;
  if (!search.complete()) {
    separate = separate_debug_file(module, sysroot_);
    if (separate) search.read(*separate);
  }
  if (!search.complete()) {
    mini_bytes = mini_debug_data(*module.image);
    std::string error;
    if (!mini_bytes.empty()) mini = elfcore::Image::parse(mini_bytes, error);
    if (mini) search.read(*mini);
  }
  std::vector<Match> matches = search.matches();
  if (!search.complete()) {
    const GoNames go(*module.image);
    for (std::size_t i = 0; i < matches.size(); ++i) {
      if (matches[i].rank == 0) matches[i] = go.find(linked[i]);
    }
  }
  const bool nameless = std::any_of(matches.begin(), matches.end(),
                                    [](const Match& match) { return match.rank == 0; });
  const CodeRange cold = nameless ? cold_evaluator(*module.image) : CodeRange{};
  auto at = addresses.begin();
  for (std::size_t i = 0; i < matches.size(); ++i) {
    std::optional<std::pair<std::string, std::uint64_t>> known;
    if (matches[i].rank != 0) {
      known.emplace(demangle(matches[i].name()), matches[i].start);
    } else if (cold.contains(linked[i])) {
      known.emplace(std::string(kEvaluator) + ".cold", cold.start);
    } else {
      known = plt_entry(*module.image, linked[i]);
    }
    for (; at != addresses.end() && at->address == linked[i]; ++at) {
      if (known) keep(linked[i] + at->bias, known->first, known->second + at->bias);
    }
  }
}

void Symbolizer::resolve_in_vdso(std::span<const std::uint64_t> addresses) {
  std::vector<std::uint64_t> linked(addresses.begin(), addresses.end());
  for (std::uint64_t& address : linked) address -= vdso_.bias;
  if (!std::is_sorted(linked.begin(), linked.end())) return;
  SymbolSearch search(linked);
  search.read(*vdso_.image);
  const std::vector<Match>& matches = search.matches();
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (matches[i].rank == 0) continue;
    keep(addresses[i], demangle(matches[i].name()), matches[i].start + vdso_.bias);
  }
}

void Symbolizer::keep(std::uint64_t address, std::string name, std::uint64_t start) {
  symbols_.insert_or_assign(address, Symbol{std::move(name), start});
}

const Symbol* Symbolizer::find(std::uint64_t address) const noexcept {
  const auto found = symbols_.find(address);
  return found == symbols_.end() ? nullptr : &found->second;
}

}  // namespace pm::unwind
