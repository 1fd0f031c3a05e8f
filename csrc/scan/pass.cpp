#include "scan/pass.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "scan/bytewise.h"
#include "scan/levels.h"
#include "scan/pool.h"

namespace pm::scan {
namespace {

constexpr std::size_t kDirectBytes = 2048;   // shorter rows are gathered first
constexpr std::size_t kGathered = 16 << 10;  // bytes that are gathered at once

void merge(const Tally& from, Tally& into) {
  into.largest = std::max(into.largest, from.largest);
  into.least_less_one = std::min(into.least_less_one, from.least_less_one);
  into.zeros += from.zeros;
  into.subnormals += from.subnormals;
  into.nans += from.nans;
  into.infinities += from.infinities;
  into.first = std::min(into.first, from.first);
}

class Pass {
 public:
  Pass(const Layout& layout, Format format, unsigned threads, Where where)
      : layout_(layout), kernel_(kernel_of(format)), where_(where) {
    const auto length = static_cast<std::uint64_t>(layout.length);
    const std::uint64_t values = length * layout.rows;  // one thread takes them in one piece
    const std::uint64_t most =
        threads < 2 ? values : piece_bytes(values * layout.item, threads) / layout.item;
    if (length > most) {
      cuts_ = (length + most - 1) / most;
      pieces_ = layout.rows * cuts_;
    } else {
      rows_each_ = std::max<std::uint64_t>(1, most / std::max<std::uint64_t>(1, length));
      pieces_ = (layout.rows + rows_each_ - 1) / rows_each_;
    }
  }

  Tally run(unsigned threads) {
    if (pieces_ == 1) {
      Tally tally = kNothing;
      piece(0, tally);
      return tally;
    }
    share(
        pieces_, threads, [](void* self, std::size_t i) { static_cast<Pass*>(self)->add(i); },
        this);
    return total_;
  }

 private:
  void add(std::size_t number) {
    Tally tally = kNothing;
    piece(number, tally);
    const std::lock_guard lock(mutex_);
    merge(tally, total_);
  }

  void piece(std::size_t number, Tally& tally) const {
    const auto length = static_cast<std::uint64_t>(layout_.length);
    if (cuts_ > 1) {
      const std::uint64_t each = (length + cuts_ - 1) / cuts_;
      const std::uint64_t begin = std::min(length, number % cuts_ * each);
      const std::uint64_t end = std::min(length, begin + each);
      part_of_row(number / cuts_, begin, end - begin, tally);
      return;
    }
    const std::uint64_t first = number * rows_each_;
    const std::uint64_t last = std::min(layout_.rows, first + rows_each_);
    if (layout_.step == 1 && (length * layout_.item >= kDirectBytes || last - first == 1)) {
      for (std::uint64_t row = first; row < last; ++row) part_of_row(row, 0, length, tally);
      return;
    }
    gathered(first, last, tally);
  }

  const std::byte* value(const std::byte* row, std::uint64_t index) const {
    return row + static_cast<std::int64_t>(index) * layout_.step *
                     static_cast<std::int64_t>(layout_.item);
  }

  void part_of_row(std::uint64_t row, std::uint64_t begin, std::uint64_t count,
                   Tally& tally) const {
    const std::byte* data = value(layout_.row(row), begin);
    if (layout_.step == 1) {
      kernel_(data, count, row * static_cast<std::uint64_t>(layout_.length) + begin, where_, tally);
      return;
    }
    Gatherer gatherer(*this, tally);
    gatherer.take(data, count);
  }

  void gathered(std::uint64_t first, std::uint64_t last, Tally& tally) const {
    Gatherer gatherer(*this, tally);
    for (std::uint64_t row = first; row < last; ++row) {
      gatherer.take(layout_.row(row), static_cast<std::uint64_t>(layout_.length));
    }
  }

  // Puts values that do not lie side by side where a kernel can read them.
  class Gatherer {
   public:
    Gatherer(const Pass& pass, Tally& tally) : pass_(pass), tally_(tally) {}
    ~Gatherer() { flush(); }
    Gatherer(const Gatherer&) = delete;
    Gatherer& operator=(const Gatherer&) = delete;

    void take(const std::byte* data, std::uint64_t count) {
      switch (pass_.layout_.item) {
        case 1:
          return copy<std::uint8_t>(data, count);
        case 2:
          return copy<std::uint16_t>(data, count);
        case 4:
          return copy<std::uint32_t>(data, count);
        default:
          return copy<std::uint64_t>(data, count);
      }
    }

   private:
    template <class U>
    void copy(const std::byte* data, std::uint64_t count) {
      const std::int64_t step = pass_.layout_.step * static_cast<std::int64_t>(sizeof(U));
      while (count != 0) {
        const std::uint64_t room = kGathered / sizeof(U) - held_;
        const std::uint64_t now = std::min(count, room);
        std::byte* out = buffer_ + held_ * sizeof(U);
        if (step == sizeof(U)) {
          std::memcpy(out, data, now * sizeof(U));
          data += now * sizeof(U);
        } else {
          for (std::uint64_t i = 0; i < now; ++i, data += step, out += sizeof(U)) {
            std::memcpy(out, data, sizeof(U));
          }
        }
        held_ += now;
        count -= now;
        if (held_ == kGathered / sizeof(U)) flush();
      }
    }

    void flush() {
      pass_.kernel_(buffer_, held_, 0, Where::caches, tally_);
      held_ = 0;
    }

    const Pass& pass_;
    Tally& tally_;
    std::uint64_t held_ = 0;
    alignas(64) std::byte buffer_[kGathered];
  };

  const Layout& layout_;
  Kernel kernel_;
  Where where_;
  std::uint64_t cuts_ = 1;       // pieces of one row
  std::uint64_t rows_each_ = 1;  // rows of one piece
  std::uint64_t pieces_ = 1;
  std::mutex mutex_;
  Tally total_ = kNothing;
};

}  // namespace

Kernel kernel_of(Format format) noexcept {
  const Kernel kernel = kernels().at[static_cast<std::size_t>(format)];
  return kernel != nullptr ? kernel : bytewise_kernel(format);
}

Tally pass_over(const Layout& layout, Format format, unsigned threads, Where where) {
  return Pass(layout, format, threads, where).run(threads);
}

}  // namespace pm::scan
