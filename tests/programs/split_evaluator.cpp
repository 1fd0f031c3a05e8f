// Dies in the cold part of a function that has the name of CPython's evaluator.
#include <cstdio>
#include <cstdlib>

static volatile int zero, sink;

extern "C" {

__attribute__((noinline, cold)) void opcode(volatile int* address) {
  *address = 1;
  sink = sink + 1;
}

int _PyEval_EvalFrameDefault(int frames) {
  int done = 0;
  for (int i = 0; i < frames; ++i) {
    if (i == 40) {
      sink = sink + 1;
      opcode(reinterpret_cast<volatile int*>(static_cast<long>(zero)));
      std::puts("forty");
    }
    if (i == 50) {
      opcode(&sink);
      std::puts("fifty");
    }
    if (done == -1) {
      opcode(&sink);
      std::puts("never");
    }
    done += sink + i;
  }
  return done;
}
}

int main(int argc, char**) { return _PyEval_EvalFrameDefault(argc * 100); }
