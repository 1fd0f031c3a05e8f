// A library with several places to crash in, for tests of signatures. The functions that fault are
// static: a stripped build has no names for them.
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

template <typename T>
[[gnu::noinline]] void write_through(T* where, T value) {
  *static_cast<volatile T*>(where) = value;
}

[[gnu::noinline]] int deeper(int level, const char* bytes) {
  char local[256];
  std::memcpy(local, bytes, sizeof local);
  if (level < 0) return local[0];
  return deeper(level + 1, local) + local[7];
}

}  // namespace

extern "C" {

void store_at(long address) {
  write_through(reinterpret_cast<int*>(address), 7);
  write_through(reinterpret_cast<char*>(address), 'x');
}

long load_from(long address) { return *reinterpret_cast<volatile long*>(address) + 1; }

void copy_to(long address, long size) {
  std::memmove(reinterpret_cast<void*>(address), &address, static_cast<std::size_t>(size));
}

void give_up(long code) { code ? std::abort() : std::exit(3); }

int dig(long) {
  char bytes[256] = {1};
  return deeper(0, bytes);
}

// The fault is in whichever of the threads comes first.
void store_from_threads(long address, int count) {
  std::vector<std::thread> team;
  for (int i = 0; i < count; ++i) team.emplace_back([=] { store_at(address); });
  for (std::thread& thread : team) thread.join();
}
}
