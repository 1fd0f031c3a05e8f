// Threads at a std::shared_mutex: shared_locks writer|readers. A thread has it, another one wants it.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <shared_mutex>
#include <string>
#include <thread>

namespace {

std::shared_mutex lock;
std::atomic<int> taken{0}, wanting{0};

// "202 0x7f…": the system call that the thread is in.
bool in_futex(int tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/syscall");
  int number = -1;
  file >> number;
  return number == SYS_futex;
}

}  // namespace

int main(int, char** argv) {
  const bool writer = std::strcmp(argv[1], "writer") == 0;
  std::thread holder([&] {
    if (writer) {
      lock.lock();
    } else {
      lock.lock_shared();
    }
    taken = 1;
    for (;;) pause();
  });
  while (!taken) usleep(1000);
  std::thread reader([&] {
    wanting = static_cast<int>(syscall(SYS_gettid));
    if (writer) {
      lock.lock_shared();
    } else {
      lock.lock();
    }
  });
  while (!wanting || !in_futex(wanting)) usleep(1000);
  std::thread other([&] {
    wanting = static_cast<int>(syscall(SYS_gettid));
    lock.lock();
  });
  const int before = wanting;
  while (wanting == before || !in_futex(wanting)) usleep(1000);
  std::abort();
}
