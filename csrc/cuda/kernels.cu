// The kernels: blocks pass their pieces, add up what their threads found, and the last block of a
// tensor writes its record.
#include <cuda_runtime.h>

#include "cuda/kernels.h"

namespace pm::cuda {
namespace {

// On a multiprocessor at once, at least: up to 48 registers, up to 64 on sm_75 with its 1024
// threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr u32 kBlocks = 4;
#else
constexpr u32 kBlocks = 5;
#endif
constexpr u32 kAll = 0xffffffffU;

__device__ u64 shuffled(u64 value, int by) { return __shfl_xor_sync(kAll, value, by); }

// The sum, or extreme, over a warp.
template <class F>
__device__ u64 over_warp(u64 value, F join) {
#pragma unroll
  for (int by = 16; by != 0; by /= 2) value = join(value, shuffled(value, by));
  return value;
}

__device__ u64 largest_wide(u64 value) {
  if (!any_of_warp(value >> 32 != 0)) return largest_of_warp(static_cast<u32>(value));
  return over_warp(value, [](u64 a, u64 b) { return larger(a, b); });
}

__device__ u64 total_of_warp(u64 value) {
  return over_warp(value, [](u64 a, u64 b) { return a + b; });
}

// Of what pass_entry() gives: NaNs and infinities are in the block's rest.
__device__ Tally tally_of_warp(Tally tally) {
  tally.largest = largest_wide(tally.largest);
  tally.least_less_one = ~largest_wide(~tally.least_less_one);
  if (any_of_warp(tally.zeros != 0)) tally.zeros = total_of_warp(tally.zeros);
  if (any_of_warp(tally.subnormals != 0)) tally.subnormals = total_of_warp(tally.subnormals);
  return tally;
}

// Adds the threads' tallies to the block's.
__device__ void add_to_block(const Tally& mine, Tally* block) {
  const Tally tally = tally_of_warp(mine);
  if (threadIdx.x % 32 == 0) merge_shared(tally, block);
}

// Takes the sum, and leaves the accumulator as a launch expects it. The atomics are in the second
// level of the cache: reads go there too.
__device__ Tally taken(Accumulator* from) {
  Tally tally;
  tally.largest = __ldcg(&from->largest);
  tally.least_less_one = __ldcg(&from->least_less_one);
  tally.zeros = __ldcg(&from->zeros);
  tally.subnormals = __ldcg(&from->subnormals);
  tally.nans = __ldcg(&from->nans);
  tally.infinities = __ldcg(&from->infinities);
  tally.first = __ldcg(&from->first);
  from->largest = from->zeros = from->subnormals = from->nans = from->infinities = 0;
  from->least_less_one = from->first = ~u64{0};
  from->pieces_done = 0;
  return tally;
}

// The record crosses the bus; the host reads it when `ended` says so, and not before the
// accumulator is empty again.
__device__ void write_record(const Launch& launch, const Tally& tally, u32 run, Record* record) {
  volatile Record* const out = record;
  if (launch.replays) {
    out->started = run;
    __threadfence_system();
  }
  out->tally.largest = tally.largest;
  out->tally.least_less_one = tally.least_less_one;
  out->tally.zeros = tally.zeros;
  out->tally.subnormals = tally.subnormals;
  out->tally.nans = tally.nans;
  out->tally.infinities = tally.infinities;
  out->tally.first = tally.first;
  if (!launch.replays) out->started = run;
  __threadfence_system();
  out->ended = run;
}

// Adds what a block found in `done` of the `pieces` of an entry. Thread 0 only.
__device__ void commit(const Launch& launch, const Entry& entry, Tally tally, u32 done,
                       u32 pieces) {
  Accumulator* const accumulator = launch.accumulators + entry.slot;
  if (done != pieces) {
    merge_shared(tally, accumulator);
    __threadfence();
    if (atomicAdd(&accumulator->pieces_done, done) + done != pieces) return;
    __threadfence();
    tally = taken(accumulator);
  }
  const u32 run = __ldcg(&accumulator->runs) + 1;
  accumulator->runs = run;
  if (launch.row != nullptr) write_row(launch, format_of(entry), tally, launch.row);
  write_record(launch, tally, run, launch.records + entry.slot);
}

__device__ __forceinline__ void run(const Launch& launch, const Entry* entries) {
  __shared__ Tally found;
  Share share = share_of(launch.entries, launch.pieces, blockIdx.x, gridDim.x);
  while (share.begin < share.end) {
    if (threadIdx.x == 0) found = nothing();
    __syncthreads();
    const u32 at = entry_of(entries, launch.entries, share.begin);
    const Entry& entry = entries[at];
    const u32 next = at + 1 < launch.entries ? entries[at + 1].first_piece : launch.pieces;
    const Share here{share.begin - entry.first_piece, lesser(share.end, next) - entry.first_piece,
                     share.stride};
    with_kind(format_of(entry), [&](auto kind) {
      add_to_block(pass_entry<decltype(kind)>(entry, here, threadIdx.x, &found), &found);
    });
    __syncthreads();
    if (threadIdx.x == 0) {
      commit(launch, entry, found, pieces_in(here), next - entry.first_piece);
    }
    share.begin = lesser(share.end, next);
  }
}

__device__ __forceinline__ void run_apart(const Shaped& work) {
  __shared__ Tally found;
  if (threadIdx.x == 0) found = nothing();
  __syncthreads();
  const Tally mine = pass_apart(work.entry, work.shape, u64{blockIdx.x} * kThreads + threadIdx.x,
                                u64{gridDim.x} * kThreads);
  if (any_of_warp((mine.nans | mine.infinities) != 0)) {
    merge_shared(mine, &found);
  } else {
    add_to_block(mine, &found);
  }
  __syncthreads();
  if (threadIdx.x == 0) commit(work.launch, work.entry, found, 1, gridDim.x);
}

__global__ void __launch_bounds__(kThreads, kBlocks)
    scan_table(const __grid_constant__ Table work) {
  run(work.launch, work.entries);
}
__global__ void __launch_bounds__(kThreads) scan_shaped(const __grid_constant__ Shaped work) {
  run_apart(work);
}

}  // namespace

const void* kernel_of_table() { return reinterpret_cast<const void*>(scan_table); }
const void* kernel_of_shaped() { return reinterpret_cast<const void*>(scan_shaped); }

}  // namespace pm::cuda
