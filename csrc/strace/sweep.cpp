#include "strace/sweep.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "strace/rings.h"
#include "strace/text.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pm::strace {
namespace {

constexpr std::size_t kSweepPiece = std::size_t{256} << 10;  // stays in a core's second cache
constexpr std::uint64_t kEnd = 256;                          // pieces
constexpr std::size_t kLongestWord = 64;

// From rare to frequent, as counted in the recordings of the corpus; what is not there is rarer.
constexpr std::string_view kFrequency =
    "HVXUjGxKPYM}{gzkw|Cv<>E:9uWN-R)(S\\bLfmA8OhI\"FlyT5rDd67=c43inp2oa,1.s_e/t0 ";

std::size_t frequency(char c) noexcept {
  const std::size_t at = kFrequency.find(c);
  return at == std::string_view::npos ? 0 : at + 1;
}

bool scalar(const char* begin, const char* end, std::size_t counted,
            const std::vector<SoughtWord>& words, const Excused& excused, std::uint64_t& newlines) {
  newlines += static_cast<std::uint64_t>(std::count(begin, begin + counted, '\n'));
  const std::string_view all(begin, static_cast<std::size_t>(end - begin));
  return std::any_of(words.begin(), words.end(), [&](const SoughtWord& word) {
    std::size_t at = all.find(word.text);
    while (at != std::string_view::npos && excused(word, begin + at))
      at = all.find(word.text, at + 1);
    return at != std::string_view::npos;
  });
}

#if defined(__x86_64__)
constexpr std::size_t kAtOnce = 8;  // words
using Lanes = const __m256i*;

__attribute__((target("avx2"))) inline __m256i equal(const char* at, __m256i byte) {
  return _mm256_cmpeq_epi8(_mm256_loadu_si256(reinterpret_cast<Lanes>(at)), byte);
}

__attribute__((target("avx2"))) inline std::uint64_t mask_of(__m256i low, __m256i high) {
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(low)) |
         (static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(high))) << 32);
}

// For each number of words its own code: what is compared stays in registers.
template <std::size_t kWords>
__attribute__((target("avx2,popcnt"))) bool avx2(const char* begin, const char* end,
                                                 std::size_t counted,
                                                 const std::vector<SoughtWord>& words,
                                                 const Excused& excused, std::uint64_t& newlines) {
  __m256i first[kWords], second[kWords];
  std::size_t first_at[kWords], second_at[kWords];
  for (std::size_t i = 0; i < kWords; ++i) {
    first_at[i] = words[i].rare[0];
    second_at[i] = words[i].rare[1];
    first[i] = _mm256_set1_epi8(words[i].text[first_at[i]]);
    second[i] = _mm256_set1_epi8(words[i].text[second_at[i]]);
  }
  const __m256i newline = _mm256_set1_epi8('\n');
  const char* const last = begin + counted;
  const char* at = begin;
  std::uint64_t count = 0;
  // A word that begins in the last of the vectors ends within kLongestWord bytes behind it.
  for (; end - at >= static_cast<std::ptrdiff_t>(64 + kLongestWord) && last - at >= 64; at += 64) {
    count += static_cast<unsigned>(
        __builtin_popcountll(mask_of(equal(at, newline), equal(at + 32, newline))));
    __m256i low = _mm256_setzero_si256();
    __m256i high = low;
    for (std::size_t i = 0; i < kWords; ++i) {
      const char* const a = at + first_at[i];
      const char* const b = at + second_at[i];
      low = _mm256_or_si256(low, _mm256_and_si256(equal(a, first[i]), equal(b, second[i])));
      high = _mm256_or_si256(high,
                             _mm256_and_si256(equal(a + 32, first[i]), equal(b + 32, second[i])));
    }
    const __m256i any = _mm256_or_si256(low, high);
    if (__builtin_expect(_mm256_testz_si256(any, any), 1)) continue;
    for (std::uint64_t mask = mask_of(low, high); mask != 0; mask &= mask - 1) {
      const char* const place = at + std::countr_zero(mask);
      for (const SoughtWord& word : words) {
        if (std::memcmp(place, word.text.data(), word.text.size()) == 0 && !excused(word, place))
          return true;
      }
    }
  }
  newlines += count;
  return scalar(at, end, static_cast<std::size_t>(last - at), words, excused, newlines);
}

// By the number of words.
constexpr decltype(&avx2<1>) kByWords[kAtOnce] = {avx2<1>, avx2<2>, avx2<3>, avx2<4>,
                                                  avx2<5>, avx2<6>, avx2<7>, avx2<8>};
#endif

// Reads `size` bytes from byte `from` of a file on; false if they are not there to be read.
bool read_at(int descriptor, char* to, std::size_t size, std::uint64_t from) {
  while (size != 0) {
    const ssize_t got = ::pread(descriptor, to, size, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    from += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// One thread's share of a file: the piece that is next, until none is left.
class Worker {
 public:
  Worker(int descriptor, std::uint64_t size, const std::vector<SoughtWord>& words, bool from_start)
      : descriptor_(descriptor),
        size_(size),
        words_(words),
        from_start_(from_start),
        pieces_((size + kSweepPiece - 1) / kSweepPiece) {}

  void work(const std::function<bool()>& stop) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(kSweepPiece + kLongestWord);
    std::uint64_t newlines = 0;
    for (;;) {
      const std::uint64_t taken = next_.fetch_add(1, std::memory_order_relaxed);
      if (taken >= pieces_ || given_up_.load(std::memory_order_relaxed)) break;
      if (stop() || !piece(in_order(taken), buffer.get(), newlines)) {
        given_up_.store(true, std::memory_order_relaxed);
      }
    }
    newlines_.fetch_add(newlines, std::memory_order_relaxed);
  }

  Sweep result() const {
    Sweep sweep;
    // What was passed to a ring that nobody saw made is unknown.
    sweep.absent = !given_up_.load() && (!entered_.load() || made_.load());
    sweep.lines = newlines_.load() + (ends_open_ ? 1 : 0);
    return sweep;
  }

 private:
  // The end first, where most failures are; the rest as the system reads ahead.
  std::uint64_t in_order(std::uint64_t taken) const {
    const std::uint64_t end = std::min(pieces_, kEnd);
    return taken < end ? pieces_ - end + taken : taken - end;
  }

  // False if a word is in it, or if it cannot be read.
  bool piece(std::uint64_t number, char* buffer, std::uint64_t& newlines) {
    const std::uint64_t from = number * kSweepPiece;
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(kSweepPiece + kLongestWord, size_ - from));
    const std::size_t counted = std::min(wanted, kSweepPiece);
    if (!read_at(descriptor_, buffer, wanted, from)) return false;
    if (number == pieces_ - 1) ends_open_ = buffer[counted - 1] != '\n';
    const auto excused = [&](const SoughtWord& word, const char* place) {
      return from_start_ && word.text == kRingWord &&
             hides_nothing(from + static_cast<std::uint64_t>(place - buffer));
    };
    return !any_word_in(buffer, buffer + wanted, counted, words_, excused, newlines);
  }

  // Whether what the line with byte `at` says of a ring is known to hide nothing.
  bool hides_nothing(std::uint64_t at) {
    constexpr std::uint64_t kAround = 8192;
    const std::uint64_t from = at - std::min(at, kAround);
    const auto size = static_cast<std::size_t>(std::min(at + kAround, size_) - from);
    char text[2 * kAround + kPadding] = {};
    if (!read_at(descriptor_, text, size, from)) return false;
    const std::string_view all(text, size);
    const std::size_t first = from == 0 ? 0 : all.find('\n') + 1;
    const std::size_t before = all.rfind('\n', at - from);
    const std::size_t line = before == std::string_view::npos ? 0 : before + 1;
    const std::size_t end = all.find('\n', at - from);
    if (first > line || (line == 0 && from != 0) || end == std::string_view::npos) return false;
    const RingUse use = ring_use(text + first, text + line, text + end);
    if (use == RingUse::made) made_.store(true);
    if (use == RingUse::entered) entered_.store(true);
    return use != RingUse::unknown;
  }

  const int descriptor_;
  const std::uint64_t size_;
  const std::vector<SoughtWord>& words_;
  const bool from_start_;
  const std::uint64_t pieces_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> newlines_{0};
  std::atomic<bool> given_up_{false};
  std::atomic<bool> made_{false};     // a ring for epoll_ctl() alone
  std::atomic<bool> entered_{false};  // such a ring
  std::atomic<bool> ends_open_{false};
};

}  // namespace

SoughtWord sought(const std::string& word) {
  SoughtWord made{word, {0, 1}};
  const auto rarer = [&](std::size_t a, std::size_t b) {
    return frequency(word[a]) < frequency(word[b]);
  };
  if (rarer(1, 0)) std::swap(made.rare[0], made.rare[1]);
  for (std::size_t i = 2; i < word.size(); ++i) {
    if (rarer(i, made.rare[0])) {
      made.rare[1] = made.rare[0];
      made.rare[0] = i;
    } else if (rarer(i, made.rare[1])) {
      made.rare[1] = i;
    }
  }
  return made;
}

bool any_word_in(const char* begin, const char* end, std::size_t counted,
                 const std::vector<SoughtWord>& words, const Excused& excused,
                 std::uint64_t& newlines) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
  if (has_avx2 && !words.empty() && words.size() <= kAtOnce)
    return kByWords[words.size() - 1](begin, end, counted, words, excused, newlines);
#endif
  return scalar(begin, end, counted, words, excused, newlines);
}

Sweep sweep(int descriptor, std::uint64_t size, const std::vector<std::string>& words,
            unsigned threads, bool from_start, const std::function<bool()>& stop) {
  std::vector<SoughtWord> all;
  for (const std::string& word : words) {
    if (word.size() < 2 || word.size() > kLongestWord) return {};
    all.push_back(sought(word));
  }
  Worker worker(descriptor, size, all, from_start);
  {
    std::vector<std::jthread> others;
    try {
      for (unsigned i = 1; i < threads; ++i) others.emplace_back([&] { worker.work(stop); });
    } catch (const std::system_error&) {  // a limit of the machine: with those that there are
    }
    worker.work(stop);
  }
  return worker.result();
}

}  // namespace pm::strace
