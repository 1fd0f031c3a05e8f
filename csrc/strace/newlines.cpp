// Offsets of newlines: the only pass that touches every byte.
#include "strace/extract.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pm::strace {
namespace {

void scalar(const char* begin, const char* from, const char* end, std::vector<std::uint32_t>& out) {
  for (const char* p = from; (p = find(p, end, '\n')) < end; ++p) {
    out.push_back(static_cast<std::uint32_t>(p - begin));
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,popcnt"))) inline std::uint32_t newlines_in_32(const char* at) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i equal = _mm256_cmpeq_epi8(_mm256_set1_epi8('\n'), bytes);
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(equal));
}

__attribute__((target("avx2,bmi,popcnt"))) void avx2(const char* begin, const char* end,
                                                     std::vector<std::uint32_t>& out) {
  const char* p = begin;
  std::size_t count = out.size();
  for (; end - p >= 64; p += 64) {
    std::uint64_t mask =
        newlines_in_32(p) | (static_cast<std::uint64_t>(newlines_in_32(p + 32)) << 32);
    if (out.size() < count + 64) out.resize(2 * count + 4096);
    const auto base = static_cast<std::uint32_t>(p - begin);
    // Two are written whether or not they are there: no branch tells lines apart, since none could
    // be foreseen. The next 64 bytes write over what is none.
    std::uint32_t* at = out.data() + count;
    at[0] = base + static_cast<std::uint32_t>(_tzcnt_u64(mask));
    const std::uint64_t rest = _blsr_u64(mask);
    at[1] = base + static_cast<std::uint32_t>(_tzcnt_u64(rest));
    count += static_cast<unsigned>(__builtin_popcountll(mask));
    for (mask = _blsr_u64(rest), at += 2; mask; mask = _blsr_u64(mask)) {
      *at++ = base + static_cast<std::uint32_t>(_tzcnt_u64(mask));
    }
  }
  out.resize(count);
  scalar(begin, p, end, out);
}
#endif

}  // namespace

void find_newlines(const char* begin, const char* end, std::vector<std::uint32_t>& out) {
  out.clear();
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                               __builtin_cpu_supports("popcnt");
  if (has_avx2) {
    avx2(begin, end, out);
    return;
  }
#endif
  scalar(begin, begin, end, out);
}

}  // namespace pm::strace
