// A library in which threads wait: its symbols and lines can be loaded or left out.
#include <unistd.h>

#include <atomic>

static void wait_for_ever(std::atomic<int>* ready, int number) {
  int seconds = number + 1000;
  ready->fetch_add(1);
  for (;;) sleep(seconds);  // LINE wait
}

extern "C" void wait_in_library(std::atomic<int>* ready, int number) {
  wait_for_ever(ready, number);
}
