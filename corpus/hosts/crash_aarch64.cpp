// one program, many ends (aarch64)
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <stdexcept>
#include <string>
static pthread_barrier_t gate;
static pthread_mutex_t ma = PTHREAD_MUTEX_INITIALIZER, mb = PTHREAD_MUTEX_INITIALIZER;
struct Batch { long id; long* rows; };
static void* idle(void* p) { pthread_setname_np(pthread_self(), "loader"); pthread_barrier_wait(&gate); pause(); return p; }
__attribute__((noinline)) long sum_rows(Batch* b, int n) { long s = 0; for (int i = 0; i < n; i++) s += b->rows[i]; return s; }
__attribute__((noinline)) long train_step(Batch* b) { long v = sum_rows(b, 4); printf("%ld\n", v); return v + 1; }
__attribute__((noinline)) int deep(int n) { volatile char pad[512]; memset((void*)pad, n, sizeof pad); return deep(n + 1) + pad[3]; }
static volatile int zero = 0;
static void* first(void*) { pthread_mutex_lock(&ma); pthread_barrier_wait(&gate); pthread_mutex_lock(&mb); return 0; }
static void* second(void*) { pthread_mutex_lock(&mb); pthread_barrier_wait(&gate); pthread_mutex_lock(&ma); return 0; }
static void handler(int s) { (void)s; long* p = (long*)16; *p = 1; }
struct Shape { virtual double area() = 0; virtual ~Shape() {} };
int main(int argc, char** argv) {
  std::string how = argc > 1 ? argv[1] : "null";
  setvbuf(stdout, 0, _IONBF, 0);
  if (how == "deadlock") {
    pthread_barrier_init(&gate, 0, 3);
    pthread_t t; pthread_create(&t, 0, first, 0); pthread_create(&t, 0, second, 0);
    pthread_barrier_wait(&gate); sleep(1); abort();
  }
  pthread_barrier_init(&gate, 0, 4);
  for (int i = 0; i < 3; i++) { pthread_t t; pthread_create(&t, 0, idle, 0); }
  pthread_barrier_wait(&gate);
  if (how == "null") { Batch b{7, nullptr}; train_step(&b); }
  if (how == "wild") { Batch b{7, (long*)0x8000beef00112233}; train_step(&b); }
  if (how == "throw") throw std::runtime_error("world size 8 but only 6 ranks joined");
  if (how == "overflow") return deep(1);
  if (how == "bus") {
    int fd = open("/tmp/shard.bin", O_RDWR | O_CREAT, 0600); if (ftruncate(fd, 1 << 16)) return 2;
    char* p = (char*)mmap(0, 1 << 16, PROT_READ, MAP_SHARED, fd, 0);
    printf("%d\n", p[5]); if (ftruncate(fd, 4096)) return 2; printf("%d\n", p[0x8000]);
  }
  if (how == "align") { char* p = (char*)malloc(64); asm volatile("ldaxr x0, [%0]" : : "r"(p + 1) : "x0"); }
  if (how == "ill") asm volatile(".inst 0x00000000");
  if (how == "trap") __builtin_trap();
  if (how == "heap") { char* p = (char*)malloc(24); memset(p, 0x41, 64); char* q = (char*)malloc(200000); free(p); free(q); p = (char*)malloc(2000); free(p); free(p); }
  if (how == "double") { char* p = (char*)malloc(3000); char* q = (char*)malloc(10); (void)q; free(p); free(p); }
  if (how == "smash") { char b[8]; memset(b, 'A', 64 + zero); printf("%s", b); }
  if (how == "div") { printf("%d\n", 5 / zero); raise(SIGFPE); }
  if (how == "handler") { signal(SIGUSR1, handler); raise(SIGUSR1); }
  if (how == "callnull") { void (*volatile f)() = nullptr; f(); }
  if (how == "calldata") { static long data[8]; void (*volatile f)() = (void (*)())data; f(); }
  if (how == "write_text") { *(volatile int*)(void*)&train_step = 1; }
  if (how == "freed") { Batch* b = new Batch{1, new long[4]}; delete[] b->rows; memset(b, 0xdd, sizeof *b); train_step(b); }
  if (how == "auxv") printf("hwcap %lx %lx\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
  if (how == "sve") { asm volatile(".arch armv8-a+sve\n ptrue p0.b\n dup z3.d, #7\n" ::: "memory"); Batch b{7, nullptr}; train_step(&b); }
  return 0;
}
