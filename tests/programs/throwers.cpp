// Ends in as many ways as C++ knows: throwers CASE. Each case is the evidence of one test.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace {

struct Loader {
  virtual ~Loader() = default;
  int shard = 17;
};
struct OwnWords : std::runtime_error {
  using std::runtime_error::runtime_error;
  const char* what() const noexcept override { return "these are not the base's words"; }
};
struct Both : Loader, std::logic_error {
  Both() : std::logic_error("second base") {}
};
struct Virtual : virtual std::runtime_error {
  Virtual() : std::runtime_error("virtual base") {}
};
struct Plain : std::exception {};
struct NoException {
  int value = 3;
};
enum class Code { broken = 42 };
struct __attribute__((visibility("hidden"))) Hidden : std::runtime_error {
  using std::runtime_error::runtime_error;
};

volatile int* null_pointer = nullptr;
char* volatile room_for_all = nullptr;

struct CrashOnUnwind {
  ~CrashOnUnwind() { *null_pointer = 1; }
};

void nested() {
  try {
    throw std::out_of_range("inner cause");
  } catch (...) {
    std::throw_with_nested(std::runtime_error("outer trouble"));
  }
}
void rethrown() {
  std::exception_ptr pointer;
  try {
    throw std::invalid_argument("kept in a pointer");
  } catch (...) {
    pointer = std::current_exception();
  }
  std::rethrow_exception(pointer);
}
void handled() {
  try {
    throw std::runtime_error("being handled");
  } catch (const std::exception&) {
    *null_pointer = 1;
  }
}
void forgotten() {
  for (int i = 0; i < 50; ++i) {
    try {
      throw std::runtime_error("long gone " + std::to_string(i));
    } catch (const std::exception&) {
    }
  }
  abort();
}
void unwinding() {
  CrashOnUnwind guard;
  throw std::runtime_error("on its way");
}
[[gnu::noinline]] void flush_and_fail() {
  if (!room_for_all) throw std::logic_error("thrown by a destructor");
}
struct ThrowOnUnwind {
  ~ThrowOnUnwind() { flush_and_fail(); }
};
void unwinding_throws() {
  ThrowOnUnwind guard;
  throw std::runtime_error("the first error");
}
void promised_not() { throw std::length_error("caught, then aborted"); }
void promised() noexcept { throw std::length_error("out of noexcept"); }
void rethrown_in_catch() {
  try {
    throw std::runtime_error("thrown again");
  } catch (...) {
    throw;
  }
}
void in_thread() {
  std::thread([] { throw std::runtime_error("from a thread"); }).join();
}
void titled(char** arguments) {
  // What setproctitle does: the title over the arguments' bytes.
  const size_t room = strlen(arguments[0]);
  memset(arguments[0], 0, room);
  memcpy(arguments[0], "a-title-of-its-own", room < 18 ? room : 18);
  char* end = arguments[1];
  memset(end, 0, strlen(end));
  abort();
}
void environment() {
  setenv("RANK", "5", 1);
  setenv("WORLD_SIZE", "16", 1);
  unsetenv("GOES_AWAY");
  abort();
}
void bus(const char* path) {
  FILE* file = fopen(path, "w+");
  if (!file || ftruncate(fileno(file), 8192) != 0) return;
  char* memory = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0));
  if (ftruncate(fileno(file), 0) != 0) return;
  memory[4096 + 16] = 1;
}
int deep(int n) {
  volatile char room[4096];
  room[0] = static_cast<char>(n);
  return deep(n + 1) + room[0];
}

}  // namespace

int main(int count, char** arguments) {
  const std::string which = count > 1 ? arguments[1] : "";
  if (which == "nested") nested();
  if (which == "rethrown") rethrown();
  if (which == "rethrown_in_catch") rethrown_in_catch();
  if (which == "own_words") throw OwnWords("base words");
  if (which == "integer") throw -7;
  if (which == "words") throw "only text";
  if (which == "string") throw std::string("a std::string that is longer than its own buffer");
  if (which == "code") throw Code::broken;
  if (which == "no_exception") throw NoException{};
  if (which == "plain") throw Plain{};
  if (which == "both") throw Both{};
  if (which == "virtual") throw Virtual{};
  if (which == "hidden") throw Hidden("nobody else sees this type");
  if (which == "memory") room_for_all = new char[size_t{1} << 62];
  if (which == "at") static_cast<void>(std::map<int, int>{}.at(1));
  if (which == "files") static_cast<void>(std::filesystem::file_size("/nonexistent/shard-00017"));
  if (which == "system") throw std::system_error(28, std::generic_category(), "write of step 12");
  if (which == "handled") handled();
  if (which == "forgotten") forgotten();
  if (which == "unwinding") {
    try {
      unwinding();
    } catch (const std::exception&) {
    }
  }
  if (which == "unwinding_throws") {
    try {
      unwinding_throws();
    } catch (const std::exception&) {
    }
  }
  if (which == "aborts_in_catch") {
    try {
      promised_not();
    } catch (const std::exception&) {
      abort();
    }
  }
  if (which == "noexcept") promised();
  if (which == "thread") in_thread();
  if (which == "assert") assert(which.empty() && "must be empty");
  if (which == "title") titled(arguments);
  if (which == "environment") environment();
  if (which == "no_environment") {
    clearenv();
    abort();
  }
  if (which == "bus") bus(arguments[2]);
  if (which == "deep") return deep(0);
  if (which == "deep_thread") std::thread([] { deep(0); }).join();
  if (which == "impossible") *reinterpret_cast<volatile int*>(0xdeadbeefdeadbeef) = 1;
  if (which == "copy") {
    const void* from = reinterpret_cast<const void*>(0xdeadbeefdeadbeef);
    void* to = arguments;
    size_t size = 64;
#if defined(__x86_64__)
    asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(size) : : "memory");
#endif
  }
  if (which == "trap") __builtin_trap();
  if (which == "jump") reinterpret_cast<void (*)()>(0x1234)();
  if (which == "getopt") {
    while (getopt(count - 1, arguments + 1, "v") != -1) {
    }
    abort();
  }
  return 2;
}
