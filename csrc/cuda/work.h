// How a launch is cut into pieces, and what a thread loads of a piece.
#pragma once

#include "cuda/chunk.h"

namespace pm::cuda {

constexpr u32 kThreads = 256;                     // of a block
constexpr u32 kPieceVectors = kThreads * kLoads;  // 16 KiB: what a block has in flight

constexpr u32 kOneRow = ~0U;

// A tensor of a launch: an array without gaps, or rows of one in the order of their elements.
struct Entry {
  const unsigned char* data;
  u64 values;               // of a row
  std::int64_t row_stride;  // in bytes
  u32 pieces_each;          // of a row; kOneRow if there is one
  u32 first_piece;          // among those of the launch
  u32 slot;                 // of its accumulator and its record
  u32 number;               // of the format
};

PM_BOTH Format format_of(const Entry& entry) { return static_cast<Format>(entry.number); }

// Neighbours in memory, as loads of 16 bytes see them: a head up to the first aligned address, the
// vectors, and a tail. Head and tail together are one more piece.
struct Range {
  const unsigned char* data;
  u64 origin;  // position of the first value
  u64 vectors;
  u32 head;  // values
  u32 tail;

  PM_BOTH u32 full_pieces() const { return static_cast<u32>(vectors / kPieceVectors); }
  PM_BOTH u32 body_pieces() const {
    return static_cast<u32>((vectors + kPieceVectors - 1) / kPieceVectors);
  }
  PM_BOTH u32 pieces() const { return body_pieces() + (head + tail != 0 ? 1 : 0); }
};

PM_BOTH Range range_of(const unsigned char* data, u64 values, u32 item, u64 origin) {
  const u32 past = static_cast<u32>(reinterpret_cast<std::uintptr_t>(data) % kVectorBytes);
  const u32 before = (kVectorBytes - past) % kVectorBytes / item;
  const u32 each = kVectorBytes / item;
  Range range{};
  range.data = data;
  range.origin = origin;
  range.head = static_cast<u32>(lesser(u64{before}, values));
  range.vectors = (values - range.head) / each;
  range.tail = static_cast<u32>((values - range.head) % each);
  return range;
}

// Pieces of an entry are numbered row by row. A row has as many numbers as the longest needs: which
// ones have a head and a tail depends on where they begin.
PM_BOTH Range range_at(const Entry& entry, u32 piece, u32 item) {
  const u64 row = piece / entry.pieces_each;
  return range_of(entry.data + static_cast<std::int64_t>(row) * entry.row_stride, entry.values,
                  item, row * entry.values);
}

PM_BOTH Vector load(const unsigned char* address) {
  Vector vector;
#if defined(__CUDA_ARCH__)
  // Read once: not kept in the first-level cache. The second level is asked for the neighbours too.
#if __CUDA_ARCH__ >= 800
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
#else
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
#endif
               : "=r"(vector.word[0]), "=r"(vector.word[1]), "=r"(vector.word[2]),
                 "=r"(vector.word[3])
               : "l"(address));
#else
  __builtin_memcpy(&vector, address, sizeof vector);
#endif
  return vector;
}

PM_BOTH u64 value_at(const unsigned char* address, u32 item) {
  switch (item) {
    case 8:
      return *reinterpret_cast<const u64*>(address);
    case 4:
      return *reinterpret_cast<const u32*>(address);
    case 2:
      return *reinterpret_cast<const std::uint16_t*>(address);
    default:
      return *address;
  }
}

template <class K>
constexpr u32 kItem = K::kBits == 4 ? 1 : K::kBits / 8;

// One value by itself.
PM_BOTH void take_value(u64 magnitude, u64 index, const Limits& limits, Tally& tally) {
  if (magnitude > limits.last_finite) {
    ++(magnitude > limits.last_infinity ? tally.nans : tally.infinities);
    tally.first = lesser(u64{tally.first}, index);
    return;
  }
  tally.largest = larger(tally.largest, magnitude);
  tally.least_less_one = lesser(tally.least_less_one, magnitude - 1);
  tally.zeros += magnitude == 0;
  tally.subnormals += magnitude != 0 && magnitude < limits.normal;
}

// All values of an item, of which there may be two.
template <class K>
PM_BOTH void take_item(u64 item, u64 index, const Limits& limits, Tally& tally) {
  using U = typename K::U;
  const auto narrow = limits.in<U>();
  PM_LOOP
  for (u32 i = 0; i < kItem<K> * 8 / K::kBits; ++i) {
    const u64 bits = K::kBits == 4 ? item >> (4 * i) & 0xf : item;
    take_value(K::magnitude(static_cast<U>(bits), narrow), index, limits, tally);
  }
}

// A thread's part of a piece, value by value. Of a body's piece, Own has all but the NaNs, the
// infinities and the largest; of heads and tails it has nothing.
template <class K>
PM_BOTH void take_slowly(const Entry& entry, u32 piece, u32 thread, Tally* rest) {
  const Limits limits = limits_of(format_of(entry));
  const Range range = range_at(entry, piece, kItem<K>);
  const u32 local = piece % entry.pieces_each;
  constexpr u32 kEach = kVectorBytes / kItem<K>;
  Tally tally = nothing();
  if (local >= range.body_pieces()) {
    if (thread >= range.head + range.tail) return;
    const u64 index = thread < range.head ? thread : thread + range.vectors * kEach;
    take_item<K>(value_at(range.data + index * kItem<K>, kItem<K>), range.origin + index, limits,
                 tally);
  } else {
    PM_LOOP
    for (u32 i = 0; i < kLoads; ++i) {
      const u64 vector = u64{local} * kPieceVectors + i * kThreads + thread;
      if (vector >= range.vectors) break;
      PM_LOOP
      for (u32 k = 0; k < kEach; ++k) {
        const u64 index = range.head + vector * kEach + k;
        take_item<K>(value_at(range.data + index * kItem<K>, kItem<K>), range.origin + index,
                     limits, tally);
      }
    }
    tally.zeros = tally.subnormals = 0;
  }
  merge_shared(tally, rest);
}

// The last entry that begins at or before a piece. Entries without pieces do not occur.
PM_BOTH u32 entry_of(const Entry* entries, u32 count, u32 piece) {
  u32 low = 0, high = count - 1;
  while (low < high) {
    const u32 middle = low + (high - low + 1) / 2;
    if (entries[middle].first_piece <= piece) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// The pieces of one block: begin, begin + stride, ... below end. Those of one tensor are dealt out
// in turn, so that the blocks read side by side; of many, each block has neighbours, so that few
// of its pieces are of another tensor than the one before.
struct Share {
  u32 begin, end, stride;
};

PM_BOTH Share share_of(u32 entries, u32 pieces, u32 block, u32 blocks) {
  if (entries == 1) return {block, pieces, blocks};
  return {static_cast<u32>(u64{pieces} * block / blocks),
          static_cast<u32>(u64{pieces} * (block + 1) / blocks), 1};
}

PM_BOTH u32 pieces_in(const Share& share) {
  return share.begin >= share.end ? 0 : (share.end - share.begin - 1) / share.stride + 1;
}

// A thread's part of pieces of one entry, numbered from its first. What is found value by value
// goes to `rest`, which the threads of a block share. All threads of a block call it together.
template <class K>
PM_BOTH Tally pass_entry(const Entry& entry, const Share& share, u32 thread, Tally* rest) {
  const auto limits = limits_of(format_of(entry)).template in<typename K::U>();
  constexpr u32 kValues = kVectorBytes * 8 / K::kBits;
  Own<K> own;
  u32 piece = share.begin;
  while (piece < share.end) {  // a row, or all
    const Range range = range_at(entry, piece, kItem<K>);
    const u32 before = piece - piece % entry.pieces_each;
    const u32 end = static_cast<u32>(lesser(u64{share.end}, u64{before} + entry.pieces_each));
    const u32 full = before + range.full_pieces(), body = before + range.body_pieces();
    const u32 left = static_cast<u32>(range.vectors % kPieceVectors);
    const unsigned char* const from = range.data + (range.head * kItem<K> + thread * kVectorBytes);
    const auto at = [&](u32 number, u32 i) {
      return from + (u64{number - before} * kPieceVectors + i * kThreads) * kVectorBytes;
    };
    // Nothing but the loop itself stands in it, so that it needs few registers: a warp leaves it
    // where one of its threads has seen a NaN or an infinity.
    while (true) {
      bool finite = true;
      PM_LOOP
      for (; piece < full && piece < end; piece += share.stride) {
        Vector vectors[kLoads];
        PM_UNROLL
        for (u32 i = 0; i < kLoads; ++i) vectors[i] = load(at(piece, i));
        finite = own.take(vectors, kLoads * kValues, limits);
        if (any_of_warp(!finite)) break;
      }
      if (piece >= end) break;
      if (piece >= full) {  // the last vectors of the row, then head and tail
        finite = false;
        if (piece < body) {
          Vector vectors[kLoads];
          u32 valid = 0;
          PM_UNROLL
          for (u32 i = 0; i < kLoads; ++i) {
            vectors[i] = Vector{};
            if (thread + i * kThreads < left) {
              vectors[i] = load(at(piece, i));
              valid += kValues;
            }
          }
          finite = own.take(vectors, valid, limits);
        }
      }
      if (!finite) take_slowly<K>(entry, piece, thread, rest);
      piece += share.stride;
    }
  }
  return tally_of(own, limits_of(format_of(entry)));
}

// Adds every `threads`th value of a tensor whose neighbours do not lie side by side, or not in the
// order of the elements.
PM_BOTH Tally pass_apart(const Entry& entry, const Shape& shape, u64 thread, u64 threads) {
  const Format format = format_of(entry);
  const Limits limits = limits_of(format);
  const u32 item = bytes_of(format);
  const u64 values = shape.length * shape.rows;
  Tally tally = nothing();
  PM_LOOP
  for (u64 i = thread; i < values; i += threads) {
    u64 row = 0, column = i;
    if (values <= 0xffffffffU) {  // much cheaper
      row = static_cast<u32>(i) / static_cast<u32>(shape.length);
      column = static_cast<u32>(i) - static_cast<u32>(row) * static_cast<u32>(shape.length);
    } else {
      row = i / shape.length;
      column = i - row * shape.length;
    }
    const std::int64_t offset =
        shape.row_offset(row) + static_cast<std::int64_t>(column) * shape.step;
    Tally one = nothing();
    const u64 bits = value_at(entry.data + offset, item);
    with_kind(format, [&](auto kind) { take_item<decltype(kind)>(bits, i, limits, one); });
    if (one.first != ~u64{0}) one.first = shape.index_of(i);
    merge(one, tally);
  }
  return tally;
}

}  // namespace pm::cuda
