// What a launch leaves behind, in memory that both sides see.
#pragma once

#include <bit>

#include "cuda/work.h"

namespace pm::cuda {

// Of one slot, in the device's memory: what its blocks have found so far. The last block to come
// empties it, so that neither a memset nor a second kernel is needed, and a CUDA graph can replay.
struct Accumulator {
  u64 largest;
  u64 least_less_one;
  u64 zeros;
  u64 subnormals;
  u64 nans;
  u64 infinities;
  u64 first;
  u32 pieces_done;
  u32 runs;  // how often the slot was written
};

// Of one slot, in the machine's memory, written by the last block. `ended` is the number of the run
// whose numbers these are; while `started` differs, another one is being written.
struct alignas(128) Record {
  u64 started;
  Tally tally;
  u64 ended;
};
static_assert(sizeof(Record) == 128);

struct Launch {
  Accumulator* accumulators;
  Record* records;
  double* row;   // in the device's memory, or null: kRowNumbers numbers of the one tensor
  u64 elements;  // these two for `row`
  u64 repeats;
  u32 entries;
  u32 pieces;
  bool replays;          // in a graph: the record may be read while it is written again
  signed char fraction;  // of the format, for `row`: bits of the fraction, and the exponent's bias
  bool complex;
  std::int32_t bias;
};

// What fits into the 4 KiB of parameters that all drivers take.
constexpr u32 kMostEntries = (4096 - sizeof(Launch)) / sizeof(Entry);

struct Table {
  Launch launch;
  Entry entries[kMostEntries];
};
static_assert(sizeof(Table) <= 4096);

// One tensor with a shape.
struct Shaped {
  Launch launch;
  Entry entry;
  Shape shape;
};

// Corrects what the kernels leave to the end: e8m0 has no zero, and its code 0 is a magnitude.
PM_BOTH Tally tally_as_counted(Format format, u64 values, Tally tally) {
  if (format != Format::e8m0fnu) return tally;
  if (values > tally.nans) ++tally.largest;
  if (tally.zeros != 0) {
    tally.least_less_one = 0;
  } else if (tally.least_less_one != ~u64{0}) {
    ++tally.least_less_one;
  }
  tally.zeros = 0;
  return tally;
}

// The number that the bits of a magnitude stand for: scan::magnitude() for code that runs on a GPU.
PM_BOTH double number_of(Format format, u64 bits, int fraction, int bias) {
  if (format >= Format::i8 && format <= Format::boolean) return static_cast<double>(bits);
  u64 significand = 1;
  int exponent;
  if (format == Format::e8m0fnu) {
    exponent = static_cast<int>(bits) - 1 - bias;
  } else {
    const u64 low = bits & ((u64{1} << fraction) - 1);
    const int field = static_cast<int>(bits >> fraction);
    significand = low | (field == 0 ? 0 : u64{1} << fraction);
    exponent = (field == 0 ? 1 : field) - bias - fraction;
  }
  // Two steps: 2^-1074 itself is no normal number.
  const int half = exponent / 2;
  const auto power = [](int to) {
    const u64 raised = static_cast<u64>(to + 1023) << 52;
#if defined(__CUDA_ARCH__)
    return __longlong_as_double(static_cast<long long>(raised));
#else
    return std::bit_cast<double>(raised);
#endif
  };
  return static_cast<double>(significand) * power(half) * power(exponent - half);
}

// numel, NaN, Inf, zeros, subnormals, first bad index, least not zero, largest finite: the row of
// src/postmortem/scan/torch_ops.py.
constexpr u32 kRowNumbers = 8;

PM_BOTH void write_row(const Launch& launch, Format format, Tally tally, double* row) {
  const u64 items = launch.elements * (launch.complex ? 2 : 1) / launch.repeats;
  tally = tally_as_counted(format, items, tally);
  const double infinity = 1.0 / 0.0;
  const bool finite = items != tally.nans + tally.infinities;
  const bool nonzero = tally.least_less_one != ~u64{0};
  const bool bad = tally.nans + tally.infinities != 0;
  row[0] = static_cast<double>(launch.elements * (format == Format::e2m1x2 ? 2 : 1));
  row[1] = static_cast<double>(tally.nans * launch.repeats);
  row[2] = static_cast<double>(tally.infinities * launch.repeats);
  row[3] = static_cast<double>(tally.zeros * launch.repeats);
  row[4] = static_cast<double>(tally.subnormals * launch.repeats);
  row[5] = bad ? static_cast<double>(tally.first >> (launch.complex ? 1 : 0)) : 0.0;
  row[6] = nonzero ? number_of(format, tally.least_less_one + 1, launch.fraction, launch.bias)
                   : infinity;
  row[7] = finite ? number_of(format, tally.largest, launch.fraction, launch.bias) : -infinity;
}

}  // namespace pm::cuda
