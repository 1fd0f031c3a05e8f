#include "scan/pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>

namespace pm::scan {
namespace {

constexpr std::chrono::microseconds kLinger{50};  // to wake a thread that sleeps takes about that

// Waits for what another thread is about to do; false if it has not come in time.
template <class Done>
bool lingered(Done done) {
  const auto until = std::chrono::steady_clock::now() + kLinger;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

// Each thread has a part of its own, from one end to the other: memory is read in as few streams as
// there are threads, and that which a thread has read last time is still in its cache. Who is done
// helps the others.
struct alignas(64) Part {
  std::atomic<std::size_t> next{0};
  std::size_t end = 0;
};

struct Job {
  void (*work)(void*, std::size_t);
  void* context;
  std::span<Part> parts;
};

void work_on(Job& job, std::size_t own) {
  for (std::size_t k = 0; k < job.parts.size(); ++k) {
    Part& part = job.parts[(own + k) % job.parts.size()];
    for (std::size_t i = part.next++; i < part.end; i = part.next++) job.work(job.context, i);
  }
}

class Pool {
 public:
  void run(std::size_t count, std::size_t shares, void (*work)(void*, std::size_t), void* context) {
    for (std::size_t i = 0; i < shares; ++i) {
      parts_[i].next = count / shares * i + std::min(i, count % shares);
      parts_[i].end = count / shares * (i + 1) + std::min(i + 1, count % shares);
    }
    Job job{work, context, {parts_, shares}};
    bool sleepers = false;
    {
      const std::lock_guard lock(mutex_);
      hire(shares - 1);
      job_ = &job;
      number_.fetch_add(1, std::memory_order_relaxed);
      sleepers = asleep_ != 0;
    }
    if (sleepers) wake_.notify_all();
    work_on(job, 0);
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // who has not begun by now need not
    if (working_.load() == 0) return;
    lock.unlock();
    lingered([this] { return working_.load(std::memory_order_relaxed) == 0; });
    lock.lock();
    done_.wait(lock, [this] { return working_.load() == 0; });
  }

  std::mutex in_use;

 private:
  // The threads are never joined: they sleep until the process ends, and the pool is never freed.
  void hire(std::size_t wanted) {
    while (threads_ < wanted) {
      try {
        std::thread([this, number = threads_ + 1] { live(number); }).detach();
      } catch (const std::system_error&) {  // a limit of the machine
        return;
      }
      ++threads_;
    }
  }

  void live(std::size_t own) {
    std::uint64_t seen = 0;
    while (true) {
      const auto called = [&] { return number_.load(std::memory_order_relaxed) != seen; };
      lingered(called);
      std::unique_lock lock(mutex_);
      ++asleep_;
      wake_.wait(lock, called);
      --asleep_;
      seen = number_.load(std::memory_order_relaxed);
      if (job_ == nullptr || own >= job_->parts.size()) continue;
      working_.fetch_add(1);
      Job& job = *job_;
      lock.unlock();
      work_on(job, own);
      lock.lock();
      if (working_.fetch_sub(1) == 1) done_.notify_all();
    }
  }

  Part parts_[kMostThreads];
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;                    // while threads may still join in
  std::atomic<std::uint64_t> number_{0};  // of the job
  std::atomic<unsigned> working_{0};
  unsigned asleep_ = 0;
  std::size_t threads_ = 0;
};

std::atomic<Pool*> the_pool{nullptr};

// The child of fork() has none of the threads, and the mutexes as they happened to be.
void forget() { the_pool.store(new Pool); }

Pool& pool() {
  static std::once_flag once;
  std::call_once(once, [] {
    the_pool.store(new Pool);
    pthread_atfork(nullptr, nullptr, forget);
  });
  return *the_pool.load();
}

}  // namespace

void share(std::size_t count, unsigned threads, void (*work)(void*, std::size_t), void* context) {
  const std::size_t shares = std::min({std::size_t{threads}, count, kMostThreads});
  if (shares > 1) {
    Pool& shared = pool();
    const std::unique_lock mine(shared.in_use, std::try_to_lock);
    if (mine.owns_lock()) return shared.run(count, shares, work, context);
  }
  for (std::size_t i = 0; i < count; ++i) work(context, i);
}

}  // namespace pm::scan
