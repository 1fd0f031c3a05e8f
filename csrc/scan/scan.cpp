#include "scan/scan.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "scan/layout.h"
#include "scan/levels.h"
#include "scan/pass.h"
#include "scan/pool.h"

namespace pm::scan {
namespace {

constexpr std::size_t kShareBytes = std::size_t{512} << 10;  // below this a thread is not worth it

// As many of the threads as are worth their trouble.
unsigned worth(std::uint64_t bytes, unsigned threads) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / kShareBytes, 1, threads));
}

// The first element in C order that is NaN or infinite; the array has one.
std::int64_t first_in_order(const Array& array, const std::vector<Dimension>& dimensions) {
  const std::size_t item = item_bytes(array.format);
  const Kernel kernel = kernel_of(array.format);
  std::vector<std::int64_t> at(dimensions.size(), 0);
  const auto* data = static_cast<const std::byte*>(array.data);
  std::int64_t offset = 0;
  while (true) {
    Tally tally = kNothing;
    kernel(data + offset * static_cast<std::int64_t>(item), 1, 0, Where::caches, tally);
    if (tally.first != kNowhere) break;
    std::size_t i = dimensions.size();
    while (i-- > 0) {
      // All that a stride of 0 repeats is equal to what has been looked at.
      const std::int64_t size = dimensions[i].stride == 0 ? 1 : dimensions[i].size;
      offset += dimensions[i].stride;
      if (++at[i] < size) break;
      offset -= at[i] * dimensions[i].stride;
      at[i] = 0;
      if (i == 0) return -1;
    }
    if (dimensions.empty()) return -1;
  }
  std::int64_t index = 0;
  for (std::size_t i = 0; i < dimensions.size(); ++i) index = index * dimensions[i].size + at[i];
  return array.complex ? index / 2 : index;
}

unsigned number_of(const char* text) {
  unsigned number = 0;
  if (text == nullptr) return 0;
  std::from_chars(text, text + std::strlen(text), number);  // of "4,2" the first
  return number;
}

unsigned threads_here() {
  for (const char* name : {"POSTMORTEM_THREADS", "OMP_NUM_THREADS"}) {
    if (const unsigned number = number_of(std::getenv(name)); number != 0) {
      return std::min(number, unsigned{kMostThreads});
    }
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  // Memory is the limit, and a few threads reach it.
  return std::clamp(static_cast<unsigned>(CPU_COUNT(&set)), 1U, 16U);
}

std::atomic<unsigned>& threads_set() {
  static std::atomic<unsigned> count = threads_here();
  return count;
}

}  // namespace

Result result_of(const Tally& tally, Format format, std::uint64_t values, std::uint64_t repeats) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const bool has_infinity = tally.infinities != 0;
  const bool has_finite = values - tally.nans - tally.infinities != 0;
  const bool has_nonzero = tally.least_less_one != kNothing.least_less_one;
  Result result;
  result.nans = tally.nans * repeats;
  result.infinities = tally.infinities * repeats;
  result.zeros = tally.zeros * repeats;
  result.subnormals = tally.subnormals * repeats;
  const double largest = has_finite ? magnitude(format, tally.largest) : none;
  const double least = has_nonzero    ? magnitude(format, tally.least_less_one + 1)
                       : has_infinity ? infinity
                                      : none;
  result.abs_max_finite = largest;
  result.abs_max = has_infinity ? infinity : largest;
  result.abs_min_nonzero = least;
  result.abs_min = tally.zeros != 0 ? 0.0 : least;
  return result;
}

unsigned threads_wanted() { return threads_set().load(std::memory_order_relaxed); }
void set_threads(unsigned count) {
  threads_set().store(std::clamp(count, 1U, unsigned{kMostThreads}));
}

namespace {

// Each of these has one result, which the compiler makes where the caller wants it: a copy right
// after it was written in smaller parts waits for them, 10 ns.

Result of_nothing() {
  const double none = std::numeric_limits<double>::quiet_NaN();
  return {.abs_min = none, .abs_max = none, .abs_min_nonzero = none, .abs_max_finite = none};
}

// Whether an array is short and in C order, as most are; it may be empty.
bool is_short(const Array& array) {
  return array.strides.empty() && bytes_of(array) <= kPieceBytes;
}

Result of_short(const Array& array, Where where) {
  const std::uint64_t values = array.complex ? array.elements * 2 : array.elements;
  Tally tally = kNothing;
  kernel_of(array.format)(array.data, values, 0, where, tally);
  Result result = result_of(tally, array.format, values, 1);
  result.elements = array.elements * values_each(array.format);
  if (tally.first != kNowhere) {
    result.first_nonfinite = static_cast<std::int64_t>(tally.first >> (array.complex ? 1 : 0));
  }
  return result;
}

Result of_any(const Array& array, unsigned threads, Where where) {
  const std::uint64_t values = array.complex ? array.elements * 2 : array.elements;
  const std::uint64_t bytes = bytes_of(array);
  const std::vector<Dimension> dimensions = dimensions_of(array);
  const Layout layout = layout_of(array.data, item_bytes(array.format), dimensions);
  if (threads == 0) threads = threads_wanted();
  const std::uint64_t read = bytes / layout.repeats;
  const Tally tally = pass_over(layout, array.format, worth(read, threads), where);
  Result result = result_of(tally, array.format, values / layout.repeats, layout.repeats);
  result.elements = array.elements * values_each(array.format);
  if (tally.first != kNowhere) {
    result.first_nonfinite = layout.in_order
                                 ? static_cast<std::int64_t>(tally.first >> (array.complex ? 1 : 0))
                                 : first_in_order(array, dimensions);
  }
  return result;
}

// `total`: bytes of all that is scanned in one go.
Result one_of(const Array& array, unsigned threads, std::uint64_t total) {
  if (is_short(array)) return of_short(array, where_is(total));
  if (array.elements == 0) return of_nothing();
  return of_any(array, threads, where_is(total));
}

}  // namespace

Result scan(const Array& array, unsigned threads) {
  if (is_short(array)) return of_short(array, Where::caches);
  return one_of(array, threads, bytes_of(array));
}

void read_memory(const void* data, std::uint64_t bytes) {
  struct Work {
    const char* data;
    std::uint64_t bytes;
    std::uint64_t piece;
    std::atomic<std::uint64_t> seen;
  } work{static_cast<const char*>(data), bytes, bytes, 0};
  const unsigned threads = worth(bytes, threads_wanted());
  if (threads > 1) work.piece = piece_bytes(bytes, threads);
  share((bytes + work.piece - 1) / std::max<std::uint64_t>(work.piece, 1), threads,
        [](void* context, std::size_t i) {
          Work& all = *static_cast<Work*>(context);
          const std::uint64_t begin = i * all.piece;
          const std::uint64_t part = std::min(all.piece, all.bytes - begin);
          all.seen.fetch_or(kernels().read(all.data + begin, part), std::memory_order_relaxed);
        },
        &work);
}

void scan_all(std::span<const Array> arrays, std::span<Result> results, unsigned threads) {
  if (threads == 0) threads = threads_wanted();
  std::uint64_t bytes = 0;
  for (const Array& array : arrays) bytes += bytes_of(array);
  if (bytes < kShareBytes) {
    for (std::size_t i = 0; i < arrays.size(); ++i) results[i] = one_of(arrays[i], 1, bytes);
    return;
  }
  const std::uint64_t total = bytes;
  std::vector<std::size_t> small;
  bytes = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::uint64_t of_this = bytes_of(arrays[i]);
    if (of_this >= 2 * kShareBytes) {
      results[i] = one_of(arrays[i], threads, total);
    } else {
      small.push_back(i);
      bytes += of_this;
    }
  }
  // As many arrays at once as are worth a thread's trouble.
  struct Shared {
    std::span<const Array> arrays;
    std::span<Result> results;
    const std::vector<std::size_t>& small;
    std::size_t groups;
    std::uint64_t total;
  };
  const std::size_t groups = std::min<std::size_t>(small.size(), bytes / kPieceBytes + 1);
  Shared shared{arrays, results, small, groups, total};
  share(
      groups, bytes < kShareBytes ? 1 : threads,
      [](void* context, std::size_t group) {
        const Shared& all = *static_cast<Shared*>(context);
        for (std::size_t i = group; i < all.small.size(); i += all.groups) {
          all.results[all.small[i]] = one_of(all.arrays[all.small[i]], 1, all.total);
        }
      },
      &shared);
}

}  // namespace pm::scan
