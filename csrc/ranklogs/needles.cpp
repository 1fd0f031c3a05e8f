#include "ranklogs/needles.h"

#include <cstring>
#include <limits>

namespace pm::ranklogs {
namespace {

struct Entry {
  std::string_view text;
  Kind kind;
};

// At least four characters each. The wordings are those of CPython 3.8 to 3.14, libstdc++, glibc,
// torch 1.9 to 2.13, NCCL 2.10 to 2.28, Slurm 20 to 24, Open MPI 4 and 5.
constexpr Entry kEntries[] = {
    {"Traceback (most recent call last)", Kind::kTraceback},
    {"  File \"", Kind::kTraceback},
    {"Exception in thread ", Kind::kTraceback},
    {"During handling of the above", Kind::kTraceback},
    {"direct cause of the following", Kind::kTraceback},
    {"Exception ignored in", Kind::kTraceback},
    {"Fatal Python error", Kind::kFatal},
    {"terminate called", Kind::kFatal},
    {"Current thread 0x", Kind::kFatal},
    {"Process received signal", Kind::kFatal},
    {"Segmentation fault", Kind::kFatal},
    {"Bus error", Kind::kFatal},
    {"Illegal instruction", Kind::kFatal},
    {"Floating point exception", Kind::kFatal},
    {"(core dumped)", Kind::kFatal},
    {"double free", Kind::kFatal},
    {"free(): ", Kind::kFatal},
    {"malloc(): ", Kind::kFatal},
    {"malloc_consolidate", Kind::kFatal},
    {"corrupted size", Kind::kFatal},
    {"corrupted double", Kind::kFatal},
    {"stack smashing", Kind::kFatal},
    {"buffer overflow detected", Kind::kFatal},
    {"Assertion `", Kind::kFatal},
    {"Sanitizer: ", Kind::kFatal},
    {": runtime error: ", Kind::kFatal},
    {"panicked at ", Kind::kFatal},
    {"stack trace: ***", Kind::kFatal},
    {"*** SIG", Kind::kFatal},
    {"*** Aborted at ", Kind::kFatal},
    {"*** Check failure", Kind::kFatal},
    {"Check failed: ", Kind::kFatal},
    {"C stack trace", Kind::kFatal},
    {"MPI_ABORT was invoked", Kind::kFatal},
    {"called MPI_Abort(", Kind::kFatal},
    {"*** An error occurred in ", Kind::kFatal},
    {"*** MPI_ERR", Kind::kFatal},
    {" in comm ", Kind::kFatal},
    {"Program received signal ", Kind::kFatal},
    {"forrtl: ", Kind::kFatal},
    {"Memory access fault by GPU", Kind::kFatal},
    {"frame #", Kind::kFrames},
    {")[0x", Kind::kFrames},
    {"    @ ", Kind::kFrames},
    {"#0  0x", Kind::kFrames},
    {"PC: @ ", Kind::kFrames},
    {"Exception raised from", Kind::kFatal},
    {"closing signal", Kind::kLauncher},
    {"will restart worker group", Kind::kLauncher},
    {"restart_count=", Kind::kLauncher},
    {"REQUEUE", Kind::kLauncher},
    {"(exitcode:", Kind::kLauncher},
    {"exitcode  :", Kind::kLauncher},
    {"first observed failure", Kind::kLauncher},
    {"ChildFailedError", Kind::kLauncher},
    {"(local_rank:", Kind::kLauncher},
    {"Unable to shutdown process", Kind::kLauncher},
    {"death signal", Kind::kLauncher},
    {"SignalException", Kind::kLauncher},
    {"srun: error", Kind::kLauncher},
    {"srun: Job step", Kind::kLauncher},
    {"srun: Terminating", Kind::kLauncher},
    {"srun: forcing", Kind::kLauncher},
    {"srun: launch", Kind::kLauncher},
    {"srun: interrupt", Kind::kLauncher},
    {"slurmstepd", Kind::kLauncher},
    {"CANCELLED AT", Kind::kLauncher},
    {"DUE TO ", Kind::kLauncher},
    {"mpirun noticed", Kind::kLauncher},
    {"prterun noticed", Kind::kLauncher},
    {"exited on signal", Kind::kLauncher},
    {"BAD TERMINATION", Kind::kLauncher},
    {"EXIT CODE:", Kind::kLauncher},
    {"EXIT STRING:", Kind::kLauncher},
    {"RUNNING AT ", Kind::kLauncher},
    {"Exit code: ", Kind::kLauncher},
    {"Process name: [", Kind::kLauncher},
    {"xited with exit code", Kind::kLauncher},
    {" killed by signal ", Kind::kLauncher},
    {"exits with return code", Kind::kLauncher},
    {"terminated with code ", Kind::kLauncher},
    {"crashed with exit code ", Kind::kLauncher},
    {"xited with code ", Kind::kLauncher},
    {"exit with status code ", Kind::kLauncher},
    {"Terminating remaining workers", Kind::kLauncher},
    {"CalledProcessError: Command ", Kind::kLauncher},
    {"Worker PID: ", Kind::kLauncher},
    {"Killing subprocess", Kind::kLauncher},
    {"terminated with ", Kind::kLauncher},
    {"oom-kill", Kind::kLauncher},
    {"oom_kill", Kind::kLauncher},
    {"OOM Killed", Kind::kLauncher},
    {"OOMKilled", Kind::kLauncher},
    {"Name:    ", Kind::kLauncher},  // of kubectl describe
    {"Reason:    ", Kind::kLauncher},
    {"Exit Code: ", Kind::kLauncher},
    {"Killed process", Kind::kLauncher},
    {"job killed", Kind::kLauncher},  // LSF, PBS
    {"Killed", Kind::kLauncher},      // a shell: "run.sh: line 3: 4711 Killed       python …"
    {"worker died", Kind::kLauncher},
    {"Worker crashed", Kind::kLauncher},
    {"NCCL WARN", Kind::kComm},
    {"Watchdog caught", Kind::kComm},
    {"watchdog got stuck", Kind::kComm},
    {"atchdog thread terminated", Kind::kComm},
    {"eartbeat", Kind::kComm},
    {"monitoredBarrier", Kind::kComm},
    {"CollectiveFingerPrint", Kind::kComm},
    {"ast enqueued", Kind::kComm},
    {"finished collective #", Kind::kComm},
    {"joined but didn't finish", Kind::kComm},
    {"failed or timed out", Kind::kComm},
    {"taking the entire process down", Kind::kComm},
    {"Timed out waiting", Kind::kComm},
    {"onnection closed by peer", Kind::kComm},
    {"onnection reset by peer", Kind::kComm},
    {"ncclRemoteError", Kind::kComm},
    {"ncclSystemError", Kind::kComm},
    {"ncclInternalError", Kind::kComm},
    {"ncclUnhandledCudaError", Kind::kComm},
    {"gloo::", Kind::kComm},
    {"/task:", Kind::kComm},
    {"Terminating process because ", Kind::kComm},
    {"NCCL version", Kind::kNccl},
    {"Using network", Kind::kNccl},
    {"Bootstrap : Using", Kind::kNccl},
    {"NET/IB : ", Kind::kNccl},
    {"NET/Socket : ", Kind::kNccl},
    {"Init COMPLETE", Kind::kNccl},
    {"Init START", Kind::kNccl},
    {".cc:", Kind::kTrail},
    {"NCCL INFO Channel ", Kind::kLink},
    {"clients joined", Kind::kStartup},
    {"gai error", Kind::kStartup},
    {"EADDRINUSE", Kind::kStartup},
    {"ddress already in use", Kind::kStartup},
    {"failed to listen", Kind::kStartup},
    {"onnection refused", Kind::kStartup},
    {"No route to host", Kind::kStartup},
    {"Unable to find address", Kind::kStartup},
    {"Rendezvous", Kind::kStartup},
    {"timed out after", Kind::kStartup},
    {"failed to connect", Kind::kStartup},
    {"WORLD_SIZE", Kind::kWorld},
    {"world_size", Kind::kWorld},
    {"world size", Kind::kWorld},
    {"nproc_per_node", Kind::kWorld},
    {"world_rank=", Kind::kWorld},
    {"nranks ", Kind::kWorld},
    {"max_nodes", Kind::kWorld},
    {"Error: ", Kind::kError},
    {"ERROR", Kind::kError},
    {"CUDA error", Kind::kError},
    {"Xid (", Kind::kError},
    {"No space left", Kind::kError},
};

// How often a character comes in text, roughly: what stands in rare ones is looked for.
int commonness(char c) noexcept {
  if (c == ' ') return 12;
  if (std::strchr("etaoinsr", c)) return 8;
  if (std::strchr("hldcum", c)) return 6;
  if (c >= 'a' && c <= 'z') return 4;
  return c >= '0' && c <= '9' ? 5 : 2;
}

std::size_t rarest_window(std::string_view text) noexcept {
  std::size_t best = 0;
  int least = std::numeric_limits<int>::max();
  for (std::size_t at = 0; at + 4 <= text.size(); ++at) {
    int sum = 0;
    for (std::size_t i = at; i < at + 4; ++i) sum += commonness(text[i]);
    if (sum < least) {
      least = sum;
      best = at;
    }
  }
  return best;
}

}  // namespace

std::uint32_t Needles::hash(const char* at) noexcept {
  std::uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return (word * 2654435761u) >> 16;
}

Needles::Needles() {
  needles_.push_back({{}, 0, Kind::kError, 0});  // index 0 means none
  for (const Entry& entry : kEntries) {
    const std::size_t window = rarest_window(entry.text);
    const std::uint32_t key = hash(entry.text.data() + window);
    needles_.push_back({entry.text, window, entry.kind, first_[key]});
    first_[key] = static_cast<std::uint8_t>(needles_.size() - 1);
    present_[key >> 6] |= std::uint64_t{1} << (key & 63);
  }
  static_assert(std::size(kEntries) < 255);
}

bool Needles::may_be(std::uint32_t key) const noexcept {
  return present_[key >> 6] >> (key & 63) & 1;
}

Kinds Needles::at(std::string_view text, std::size_t at) const noexcept {
  Kinds kinds = 0;
  const std::uint32_t key = hash(text.data() + at);
  if (!may_be(key)) return kinds;
  for (std::uint8_t i = first_[key]; i; i = needles_[i].next) {
    const Needle& needle = needles_[i];
    if (at < needle.window) continue;
    const std::size_t from = at - needle.window;
    if (text.size() - from >= needle.text.size() &&
        std::memcmp(text.data() + from, needle.text.data(), needle.text.size()) == 0) {
      kinds |= bit(needle.kind);
    }
  }
  return kinds;
}

Kinds Needles::find(std::string_view text) const noexcept {
  Kinds kinds = 0;
  if (text.size() < 4) return kinds;
  const char* const begin = text.data();
  const std::size_t last = text.size() - 3;
  std::size_t at = 0;
  for (; at + 4 <= last; at += 4) {  // four places with one branch: hardly any passes
    const bool any = may_be(hash(begin + at)) | may_be(hash(begin + at + 1)) |
                     may_be(hash(begin + at + 2)) | may_be(hash(begin + at + 3));
    if (!any) continue;
    for (std::size_t i = at; i < at + 4; ++i) kinds |= this->at(text, i);
  }
  for (; at < last; ++at) kinds |= this->at(text, at);
  return kinds;
}

}  // namespace pm::ranklogs
