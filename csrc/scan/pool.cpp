#include "scan/pool.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace pm::scan {
namespace {

struct Job {
  std::size_t count;
  void (*work)(void*, std::size_t);
  void* context;
  std::atomic<std::size_t> next{0};
};

void work_on(Job& job) {
  for (std::size_t i = job.next++; i < job.count; i = job.next++) job.work(job.context, i);
}

class Pool {
 public:
  void run(Job& job, unsigned helpers) {
    {
      const std::lock_guard lock(mutex_);
      hire(helpers);
      job_ = &job;
      places_ = helpers < threads_ ? helpers : threads_;
      ++number_;
    }
    wake_.notify_all();
    work_on(job);
    std::unique_lock lock(mutex_);
    places_ = 0;  // who has not begun by now need not
    done_.wait(lock, [this] { return working_ == 0; });
    job_ = nullptr;
  }

  std::mutex in_use;

 private:
  // The threads are never joined: they sleep until the process ends, and the pool is never freed.
  void hire(unsigned wanted) {
    while (threads_ < wanted) {
      try {
        std::thread([this] { live(); }).detach();
      } catch (const std::system_error&) {  // a limit of the machine
        return;
      }
      ++threads_;
    }
  }

  void live() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return places_ != 0 && number_ != seen; });
      seen = number_;
      --places_;
      ++working_;
      Job& job = *job_;
      lock.unlock();
      work_on(job);
      lock.lock();
      if (--working_ == 0) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  std::uint64_t number_ = 0;  // of the job
  unsigned threads_ = 0;
  unsigned places_ = 0;  // for threads that may still join in
  unsigned working_ = 0;
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
  Job job{count, work, context};
  if (threads > count) threads = static_cast<unsigned>(count);
  if (threads > 1) {
    Pool& shared = pool();
    const std::unique_lock mine(shared.in_use, std::try_to_lock);
    if (mine.owns_lock()) return shared.run(job, threads - 1);
  }
  work_on(job);
}

}  // namespace pm::scan
