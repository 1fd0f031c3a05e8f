// A checkpoint as its readers hand it to native code: what a header says of an array (format,
// place, shape, strides), and the file. The formats' own headers are read in Python, which cannot
// read past an end; here is where bytes of a file become addresses. Whatever is said, no byte
// outside of the file may be read, and an array that reaches its very end must be.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "scan/place.h"

namespace {

using namespace pm::scan;

constexpr std::uint64_t kMostValues = 1 << 16;  // strides of 0 make large arrays of small files

// What the input begins with; numbers as they come.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  template <class T>
  T next() {
    T value{};
    const std::size_t part = std::min(sizeof value, size_);
    std::memcpy(&value, data_, part);
    data_ += part;
    size_ -= part;
    return value;
  }

  // A small number, a large one, or one near an edge of 64 bits.
  std::int64_t number() {
    const auto kind = next<std::uint8_t>();
    if (kind < 200) return kind & 31;
    if (kind < 230) return next<std::int16_t>();
    return next<std::int64_t>();
  }

  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// Whether the last value lies inside, in numbers of 128 bits.
bool lies_inside(const Array& array, std::uint64_t offset, std::uint64_t size) {
  if (array.elements == 0) return offset <= size;
  __int128 last = 0, dense = 1;
  for (std::size_t i = array.shape.size(); i-- > 0;) {
    const __int128 stride = array.strides.empty() ? dense : array.strides[i];
    if (stride < 0) return false;
    last += (array.shape[i] - 1) * stride;
    if (last >> 62 != 0) return false;
    dense *= array.shape[i];
  }
  const __int128 item = static_cast<__int128>(item_bytes(array.format)) * (array.complex ? 2 : 1);
  return offset + (last + 1) * item <= size;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Array array;
  array.format = static_cast<Format>(input.next<std::uint8_t>() % kFormats);
  const auto how = input.next<std::uint8_t>();
  array.complex = (how & 1) != 0 && array.format <= Format::bf16;
  const std::size_t rank = input.next<std::uint8_t>() % 6;
  std::vector<std::int64_t> shape(rank), strides(rank);
  for (auto& one : shape) one = input.number();
  for (auto& one : strides) one = input.number();
  const auto offset = static_cast<std::uint64_t>(input.number());
  const auto count = element_count(shape);
  if (!count) return 0;
  array.shape = shape;
  array.elements = *count;
  if ((how & 2) != 0) array.strides = strides;
  // A copy of its own size, so that a sanitizer sees the first byte behind it.
  const std::size_t length = input.size();
  const auto file = std::make_unique<std::uint8_t[]>(length);
  if (length != 0) std::memcpy(file.get(), input.data(), length);
  const bool placed = place_in({file.get(), length}, offset, array);
  if (placed != lies_inside(array, offset, length)) std::abort();
  if (!placed || *count > kMostValues) return 0;
  const Result result = scan(array, 1);
  if (result.elements != *count * values_each(array.format)) std::abort();
  return 0;
}
