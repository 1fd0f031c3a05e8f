#include "base/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace pm {

std::string demangle(std::string_view name) {
  constexpr std::size_t kLimit = 8192;
  const std::string text(name);
  if (!name.starts_with("_Z") || name.size() > kLimit) return text;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> result(
      abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && result ? std::string(result.get()) : text;
}

}  // namespace pm
