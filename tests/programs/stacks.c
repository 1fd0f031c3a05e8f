/* Dies in the way that its argument names, with a known stack. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile int sink;
int *volatile bad = (int *)16;
void (*volatile pointer)(int);

NOINLINE int crash_here(int n) {
  char room[200];
  room[sink & 63] = 1;
  sink = room[3];
  return *bad + n;
}

NOINLINE int third(int n) {
  int result = crash_here(n) + 1;
  sink = result;
  return result;
}

NOINLINE int second(int (*function)(int), int n) {
  char room[500];
  room[sink & 255] = 2;
  int result = function(n) + room[7];
  sink = result;
  return result;
}

NOINLINE int first(int n) {
  int result = second(third, n) * 3;
  sink = result;
  return result;
}

int compare(const void *a, const void *b) {
  int result = first(*(const int *)a + *(const int *)b) + 1;
  sink = result;
  return result;
}

void crash_in_handler(int number) { sink = crash_here(number) + 1; }

NOINLINE void in_handler(int number) {
  sink = number;
  abort();
}

void abort_in_handler(int number) {
  in_handler(number);
  sink = number;
}

NOINLINE int interrupted(int raise_it) {
  int result = raise_it ? raise(SIGUSR1) : *bad;
  sink = result;
  return result + 1;
}

NOINLINE int call_it(int n) {
  pointer(n);
  sink = n;
  return n + 1;
}

NOINLINE int tick(struct timespec *where) {
  int result = clock_gettime(CLOCK_MONOTONIC, where) + 1;
  sink = result;
  return result;
}

NOINLINE void fill(char *where, int n) { memset(where, 0x41, n); }

NOINLINE int victim(int n) {
  char room[32];
  fill(room, n);
  return room[3];
}

NOINLINE int down(int n) {
  int result = down(n + 1) + n;
  sink = result;
  return result;
}

static void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(number, &action, NULL);
}

int main(int count, char **arguments) {
  const char *how = count > 1 ? arguments[1] : "plain";
  int result = 0;
  if (!strcmp(how, "plain")) {
    result = first(count);
  } else if (!strcmp(how, "callback")) {
    int values[2] = {1, 2};
    qsort(values, 2, sizeof values[0], compare);
    result = values[0];
  } else if (!strcmp(how, "handler")) {
    handle(SIGUSR1, crash_in_handler, 0);
    result = interrupted(1);
  } else if (!strcmp(how, "altstack")) {
    stack_t stack;
    memset(&stack, 0, sizeof stack);
    stack.ss_size = 1 << 16;
    stack.ss_sp = malloc(stack.ss_size);
    sigaltstack(&stack, NULL);
    handle(SIGSEGV, abort_in_handler, SA_ONSTACK);
    result = interrupted(0);
  } else if (!strcmp(how, "badcall")) {
    pointer = (void (*)(int))strtoul(arguments[2], NULL, 16);
    result = call_it(count);
  } else if (!strcmp(how, "vdso")) {
    result = tick((struct timespec *)8);
  } else if (!strcmp(how, "smash")) {
    result = victim(120);
  } else if (!strcmp(how, "deep")) {
    result = down(count);
  }
  sink = result;
  return 0;
}
