#include "scan/levels.h"

#include <atomic>
#include <cstdlib>

#include "scan/scan.h"

namespace pm::scan {

namespace baseline {
extern const Kernels kKernels;
}
#if defined(POSTMORTEM_AVX2)
namespace avx2 {
extern const Kernels kKernels;
}
#endif
#if defined(POSTMORTEM_AVX512)
namespace avx512 {
extern const Kernels kKernels;
}
#endif

namespace {

struct Level {
  std::string_view name;
  const Kernels* kernels;
};

#if defined(__aarch64__)
constexpr std::string_view kBaseline = "neon";
#else
constexpr std::string_view kBaseline = "sse4";
#endif

// What the kernels of the unit for AVX-512 are compiled for; the builtin also asks the system
// whether it saves the registers.
[[maybe_unused]] bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

std::vector<Level> here() {
  std::vector<Level> found;
#if defined(POSTMORTEM_AVX512)
  if (has_avx512()) found.push_back({"avx512", &avx512::kKernels});
#endif
#if defined(POSTMORTEM_AVX2)
  if (__builtin_cpu_supports("avx2")) found.push_back({"avx2", &avx2::kKernels});
#endif
  found.push_back({kBaseline, &baseline::kKernels});
  return found;
}

const Level& best() {
  static const std::vector<Level> found = here();
  const char* wanted = std::getenv("POSTMORTEM_SIMD");
  for (const Level& level : found) {
    if (wanted != nullptr && level.name == wanted) return level;
  }
  return found.front();
}

std::atomic<const Level*>& current() {
  static std::atomic<const Level*> level = &best();
  return level;
}

// Those of the level in use; null until it is first asked for. Apart from current(), whose first
// call has to be looked for at each one.
std::atomic<const Kernels*> chosen{nullptr};

}  // namespace

const Kernels& kernels() noexcept {
  const Kernels* const known = chosen.load(std::memory_order_relaxed);
  if (known != nullptr) return *known;
  const Level* const level = current().load(std::memory_order_relaxed);
  chosen.store(level->kernels, std::memory_order_relaxed);
  return *level->kernels;
}

std::vector<std::string_view> levels() {
  std::vector<std::string_view> names;
  for (const Level& level : here()) names.push_back(level.name);
  return names;
}

std::string_view level() { return current().load(std::memory_order_relaxed)->name; }

bool use_level(std::string_view name) {
  static const std::vector<Level> found = here();
  for (const Level& level : found) {
    if (level.name != name) continue;
    current().store(&level, std::memory_order_relaxed);
    chosen.store(level.kernels, std::memory_order_relaxed);
    return true;
  }
  return false;
}

}  // namespace pm::scan
