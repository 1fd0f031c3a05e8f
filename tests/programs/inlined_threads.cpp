// Three threads wait inside a library; then main writes through a null pointer in a function that
// was inlined twice, called by way of a tail call. Build with -g -O2, linked to waiting.cpp.
// Prints what it is about to do, and where its libraries are (the evidence knows the truth).
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

struct Batch {
  int size;
  double scale;
  const char* label;
};

extern "C" void wait_in_library(std::atomic<int>* ready, int number);

template <class T>
[[gnu::always_inline]] inline T store_at(T* where, T value) { *where = value; return *where; }  // LINE store

[[gnu::always_inline]] static inline int write_sample(int* target, int sample) {
  return store_at<int>(target, sample * 3);  // LINE write_sample
}

[[gnu::noinline]] int train_step(int step, const Batch& batch, int* target) {
  int doubled = step * 2;
  int got = write_sample(target, doubled + batch.size);  // LINE train_step
  return got + doubled;
}

[[gnu::noinline]] int train(int step, const Batch& batch, int* target) {
  if (target != nullptr) *target = step;
  return train_step(step, batch, target);  // a tail call at -O2: no frame of its own
}

[[gnu::noinline]] void keep(char* text) { asm volatile("" : : "r"(text) : "memory"); }

static void print_libraries() {
  char line[4096];
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr)
    if (std::strstr(line, ".so") != nullptr && std::strstr(line, " 00000000 ") != nullptr)
      std::fputs(line, stdout);
}

int main() {
  std::atomic<int> ready{0};
  for (int i = 0; i < 3; i++) std::thread(wait_in_library, &ready, i).detach();
  while (ready < 3) usleep(1000);
  Batch batch{7, 0.5, "first\nbatch"};
  char large[1 << 20];
  std::memset(large, 'x', sizeof large);
  keep(large);
  print_libraries();
  std::printf("train_step(21) is about to store 147 at address 0\n");
  std::fflush(stdout);
  volatile int step = 21;
  int got = train(step, batch, nullptr);  // LINE main
  return got + batch.size;
}
