#include "base/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/demangle_rust.h"

#ifdef POSTMORTEM_DEMANGLE_CALLBACK
// libiberty's demangler as libstdc++.a holds it: cp-demangle.c of GCC, IN_GLIBCPP_V3.
extern "C" int __gcclibcxx_demangle_callback(const char* mangled,
                                             void (*write)(const char*, std::size_t, void*),
                                             void* out);
#endif

namespace pm {
namespace {

constexpr std::size_t kMangledLimit = 8192;

#ifdef POSTMORTEM_DEMANGLE_CALLBACK

constexpr std::size_t kOutputLimit = 32768;

struct TooLong {};

// The demangler hands over its text piece by piece and keeps nothing on the heap, so an exception
// may pass through it.
std::optional<std::string> bounded(const char* mangled) {
  std::string out;
  const auto write = [](const char* piece, std::size_t size, void* target) {
    auto& text = *static_cast<std::string*>(target);
    if (text.size() + size > kOutputLimit) throw TooLong{};
    text.append(piece, size);
  };
  try {
    if (__gcclibcxx_demangle_callback(mangled, write, &out) == 0) return out;
  } catch (const TooLong&) {
  }
  return std::nullopt;
}

#else

// Each reference to an earlier part of the name can at most double it.
constexpr int kMostReferences = 24;

std::optional<std::string> bounded(const char* mangled) {
  int references = 0;
  for (const char* at = mangled; *at; ++at) references += *at == 'S' || *at == 'T';
  if (references > kMostReferences) return std::nullopt;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> result(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  if (status != 0 || !result) return std::nullopt;
  return std::string(result.get());
}

#endif

}  // namespace

std::string demangle(std::string_view name) {
  if (name.size() <= kMangledLimit) {
    if (auto rust = demangle_rust(name)) return *std::move(rust);
  }
  std::string text(name);
  if (!name.starts_with("_Z") || name.size() > kMangledLimit) return text;
  return bounded(text.c_str()).value_or(text);
}

}  // namespace pm
