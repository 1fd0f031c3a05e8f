// A few threads that share a pass over memory. Not OpenMP: a second runtime of it in the process
// would fight with PyTorch's.
#pragma once

#include <cstddef>

namespace pm::scan {

constexpr std::size_t kMostThreads = 256;

// Calls `work(context, i)` for each i below `count`, on up to `threads` threads, this one among
// them; returns when all are done. `work` must not throw. Where the pool is busy (another thread
// is scanning) or threads cannot be made, this thread does it alone. Safe after fork().
void share(std::size_t count, unsigned threads, void (*work)(void*, std::size_t), void* context);

}  // namespace pm::scan
