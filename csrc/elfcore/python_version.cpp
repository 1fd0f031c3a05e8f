#include "elfcore/python_version.h"

namespace pm::elfcore {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// PY_VERSION_HEX: Include/patchlevel.h.
std::optional<std::string> version_text(std::uint64_t hex) {
  const std::uint64_t major = hex >> 24, minor = (hex >> 16) & 255, micro = (hex >> 8) & 255,
                      level = (hex >> 4) & 15, serial = hex & 15;
  if (major != 3 || minor < 11) return std::nullopt;
  std::string text =
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(micro);
  if (level == 0xa) text.append("a").append(std::to_string(serial));
  if (level == 0xb) text.append("b").append(std::to_string(serial));
  if (level == 0xc) text.append("rc").append(std::to_string(serial));
  return text;
}

// "3.8" out of .../python3.8, .../libpython3.8.so.1.0 or .../lib/python3.8/...
std::optional<std::string> version_in(std::string_view path) {
  constexpr std::string_view kWord = "python3.";
  for (std::size_t at = path.find(kWord); at != std::string_view::npos;
       at = path.find(kWord, at + 1)) {
    std::string minor;
    for (std::size_t i = at + kWord.size(); i < path.size() && is_digit(path[i]); ++i) {
      minor += path[i];
    }
    if (!minor.empty() && minor.size() <= 2) return std::string("3.").append(minor);
  }
  if (path.find("python2.7") != std::string_view::npos) return "2.7";
  return std::nullopt;
}

// "3.8" out of "_ssl.cpython-38-x86_64-linux-gnu.so".
std::optional<std::string> version_in_extension(std::string_view path) {
  constexpr std::string_view kWord = ".cpython-3";
  const std::size_t at = path.rfind(kWord);
  if (at == std::string_view::npos) return std::nullopt;
  std::string minor;
  for (std::size_t i = at + kWord.size(); i < path.size() && is_digit(path[i]); ++i) {
    minor += path[i];
  }
  if (minor.empty() || minor.size() > 2) return std::nullopt;
  return std::string("3.").append(minor);
}

bool may_hold_python(const Module& module, const Module* executable) {
  const std::string_view name = module.name();
  return name.starts_with("libpython3") || name.starts_with("libpython2") ||
         name.starts_with("python") || &module == executable;
}

}  // namespace

std::optional<std::string> find_python_version(const Memory& memory) {
  const Modules& modules = memory.modules();
  for (const Module& module : modules.all()) {
    if (!module.image || !may_hold_python(module, modules.executable())) continue;
    const auto symbol = module.image->dynamic_symbol("Py_Version");
    const auto value = symbol ? memory.word(module.bias + symbol->value) : std::nullopt;
    auto text = value ? version_text(*value) : std::nullopt;
    if (text) return text;
  }
  for (const Module& module : modules.all()) {
    if (!may_hold_python(module, modules.executable())) continue;
    if (auto text = version_in(module.name())) return text;
  }
  for (const Module& module : modules.all()) {
    if (auto text = version_in_extension(module.name())) return text;
    if (module.path.find("/lib-dynload/") == std::string::npos) continue;
    if (auto text = version_in(module.path)) return text;
  }
  return std::nullopt;
}

}  // namespace pm::elfcore
