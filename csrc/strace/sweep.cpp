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

// What of a word is compared with 32 places at once.
struct RareBytes {
  alignas(32) char first[32];
  alignas(32) char second[32];
  std::size_t first_at, second_at;
};

__attribute__((target("avx2,popcnt"))) bool avx2(const char* begin, const char* end,
                                                 std::size_t counted,
                                                 const std::vector<SoughtWord>& words,
                                                 const Excused& excused, std::uint64_t& newlines) {
  RareBytes rare[kAtOnce];
  for (std::size_t i = 0; i < words.size(); ++i) {
    rare[i].first_at = words[i].rare[0];
    rare[i].second_at = words[i].rare[1];
    std::memset(rare[i].first, words[i].text[words[i].rare[0]], 32);
    std::memset(rare[i].second, words[i].text[words[i].rare[1]], 32);
  }
  const __m256i newline = _mm256_set1_epi8('\n');
  const char* const last = begin + counted;
  const char* at = begin;
  std::uint64_t count = 0;
  // A word that begins in the last of the vectors ends within kLongestWord bytes behind it.
  for (; end - at >= static_cast<std::ptrdiff_t>(32 + kLongestWord) && last - at >= 32; at += 32) {
    const int line_ends = _mm256_movemask_epi8(
        _mm256_cmpeq_epi8(_mm256_loadu_si256(reinterpret_cast<Lanes>(at)), newline));
    count += static_cast<unsigned>(__builtin_popcount(static_cast<unsigned>(line_ends)));
    __m256i any = _mm256_setzero_si256();
    for (std::size_t i = 0; i < words.size(); ++i) {
      const RareBytes& word = rare[i];
      const __m256i a =
          _mm256_cmpeq_epi8(_mm256_loadu_si256(reinterpret_cast<Lanes>(at + word.first_at)),
                            _mm256_load_si256(reinterpret_cast<Lanes>(word.first)));
      const __m256i b =
          _mm256_cmpeq_epi8(_mm256_loadu_si256(reinterpret_cast<Lanes>(at + word.second_at)),
                            _mm256_load_si256(reinterpret_cast<Lanes>(word.second)));
      any = _mm256_or_si256(any, _mm256_and_si256(a, b));
    }
    auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(any));
    for (; __builtin_expect(mask != 0, 0); mask &= mask - 1) {
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
  if (has_avx2 && words.size() <= kAtOnce)
    return avx2(begin, end, counted, words, excused, newlines);
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
