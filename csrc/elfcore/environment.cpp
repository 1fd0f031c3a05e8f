#include "elfcore/environment.h"

#include <array>

namespace pm::elfcore {
namespace {

constexpr std::size_t kMaxEntries = 65536;
constexpr std::size_t kMaxEntry = std::size_t{1} << 20;
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
// Names of one variable in glibc and musl.
constexpr std::array<std::string_view, 3> kNames{"environ", "__environ", "_environ"};

bool is_libc(const Module& module) {
  const std::string_view name = module.name();
  return name.starts_with("libc.so") || name.starts_with("libc-2.") ||
         name.starts_with("libc.musl") || name.starts_with("ld-musl");
}

// A program that was linked without PIC has a copy of the variable, and everybody uses that one.
// A static program has it in .symtab only.
std::optional<std::uint64_t> address_in(const Module& module, bool is_executable) {
  if (!module.image) return std::nullopt;
  const bool is_static = is_executable && !module.image->program_header(PT_INTERP);
  for (const std::string_view name : kNames) {
    const auto symbol = is_static ? module.image->symbol(name) : module.image->dynamic_symbol(name);
    if (symbol && symbol->type == STT_OBJECT) return module.bias + symbol->value;
  }
  return std::nullopt;
}

bool looks_like_variable(const std::string& text) {
  const std::size_t end = text.find('=');
  if (end == std::string::npos || end == 0) return false;
  for (std::size_t i = 0; i < end; ++i) {
    if (static_cast<unsigned char>(text[i]) < ' ') return false;
  }
  return true;
}

std::optional<std::vector<std::string>> read_entries(const Memory& memory, std::uint64_t pointer,
                                                     std::string& error) {
  std::vector<std::string> entries;
  if (pointer == 0) return entries;  // clearenv()
  std::size_t bytes = 0, unreadable = 0, odd = 0;
  for (std::uint64_t i = 0;; ++i) {
    const auto entry = memory.word(pointer + 8 * i);
    if (!entry) {
      error = "the list at " + hex(pointer) + " is not in the core";
      return std::nullopt;
    }
    if (*entry == 0) break;
    if (i >= kMaxEntries || bytes > kMaxBytes) {
      error = "the list at " + hex(pointer) + " has no end";
      return std::nullopt;
    }
    auto text = memory.text(*entry, kMaxEntry);
    if (!text) {
      ++unreadable;
      continue;
    }
    bytes += text->size() + 1;
    if (!looks_like_variable(*text)) {
      ++odd;
      continue;
    }
    entries.push_back(std::move(*text));
  }
  if (odd + unreadable > entries.size()) {
    error = "the list at " + hex(pointer) +
            " does not hold NAME=value texts: " + std::to_string(entries.size()) + " do, " +
            std::to_string(odd) + " do not, " + std::to_string(unreadable) + " cannot be read";
    return std::nullopt;
  }
  return entries;
}

}  // namespace

std::optional<std::vector<std::string>> read_environment(const Memory& memory, Problems& problems) {
  const Modules& modules = memory.modules();
  const Module* const executable = modules.executable();
  std::string error = "no libc of the same build is at hand to find it by";
  std::string remedy = "run on the machine of the crash, or give --sysroot";
  const auto try_module = [&](const Module& module) {
    const auto address = address_in(module, &module == executable);
    if (!address) return std::optional<std::vector<std::string>>{};
    remedy.clear();
    const auto pointer = memory.word(*address);
    if (!pointer) {
      error = "it stands at " + hex(*address) + ", which is not in the core";
      return std::optional<std::vector<std::string>>{};
    }
    return read_entries(memory, *pointer, error);
  };
  if (executable) {
    if (auto found = try_module(*executable)) return found;
  }
  for (const Module& module : modules.all()) {
    if (&module == executable || !is_libc(module)) continue;
    if (auto found = try_module(module)) return found;
  }
  problems.add("environ", "the environment at the end cannot be read: " + error, remedy);
  return std::nullopt;
}

}  // namespace pm::elfcore
