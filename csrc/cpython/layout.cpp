#include "cpython/layout.h"

#include "cpython/offsets/tables.h"

namespace pm::cpython {

std::string version_text(Version version) {
  std::string text = std::to_string(version.major()) + "." + std::to_string(version.minor()) + "." +
                     std::to_string(version.micro());
  if (version.level() == 0xf) return text;
  text += version.level() == 0xa ? "a" : version.level() == 0xb ? "b" : "rc";
  return text + std::to_string(version.serial());
}

const Table* nearest_table(Version version) noexcept {
  const Table* best = nullptr;
  const auto distance = [version](const Table& table) {
    const auto a = table.version.micro(), b = version.micro();
    return a > b ? a - b : b - a;
  };
  for (const Table& table : tables()) {
    if (table.version.hex >> 16 != version.hex >> 16) continue;
    if (!best || distance(table) < distance(*best)) best = &table;
  }
  return best;
}

}  // namespace pm::cpython
