#include "live/snapshot.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include "live/head.h"
#include "live/proc_file.h"
#include "live/tracees.h"
#include "slim/live.h"

namespace pm::live {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMapsLimit = 256 << 20;

std::string status_line(std::string_view status, std::string_view name) {
  while (!status.empty()) {
    const std::string_view line = status.substr(0, status.find('\n'));
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      return std::string(line.substr(name.size() + 1));
    }
    status.remove_prefix(std::min(line.size() + 1, status.size()));
  }
  return {};
}

// The number in the innermost namespace (NSpid in proc_pid_status(5)).
std::int32_t last_number(const std::string& line, std::int32_t otherwise) {
  const std::size_t at = line.find_last_of(" \t");
  const long value = std::atol(line.c_str() + (at == std::string::npos ? 0 : at + 1));
  return value > 0 ? static_cast<std::int32_t>(value) : otherwise;
}

std::int32_t inner_tid(std::int32_t pid, std::int32_t tid) {
  return last_number(status_line(read_proc_file(task_folder(pid, tid) + "/status"), "NSpid"), tid);
}

std::string own_name(const std::string& file) {
  std::string text = read_proc_file(file, 4096);
  while (text.ends_with('\n') || text.ends_with('\0')) text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

class Reading {
 public:
  Reading(std::int32_t pid, const Options& options) : pid_(pid), options_(options) {}

  void run(const Reader& read, const Finish& finish) {
    check_access();
    // Once with nothing stopped; what it finds is of use where stopping is not allowed.
    auto before = memory(blocked_registers(pid_));
    read(before->core());
    if (!options_.stop) {
      finish(before->core(), outcome_);
      return;
    }
    Tracees tracees;
    outcome_.refused = tracees.stop(pid_, Clock::now() + options_.patience);
    if (outcome_.refused != 0) {
      finish(before->core(), outcome_);
      return;
    }
    before.reset();
    const auto began = Clock::now();
    auto live = memory(tracees.registers(pid_));
    outcome_.stopped = tracees.all_stopped();
    read(live->core());
    tracees.release();
    outcome_.stopped_seconds = std::chrono::duration<double>(Clock::now() - began).count();
    finish(live->core(), outcome_);
  }

 private:
  // Its memory is what the kernel guards best: who may read that may read all else.
  void check_access() const {
    const std::string path = process_folder(pid_) + "/mem";
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw EvidenceError(path + " cannot be opened: " + std::strerror(errno));
    close(fd);
  }

  std::unique_ptr<slim::LiveMemory> memory(std::vector<ThreadRegisters> threads) {
    const std::string folder = process_folder(pid_);
    const std::string maps = read_proc_file(folder + "/maps", kMapsLimit);
    const std::string status = read_proc_file(folder + "/status");
    const std::string auxv = read_proc_file(folder + "/auxv");
    outcome_.outer.clear();
    outcome_.unknown = 0;
    for (ThreadRegisters& thread : threads) {
      const std::int32_t outer = thread.tid;
      thread.tid = inner_tid(pid_, outer);
      outcome_.outer.emplace(thread.tid, outer);
      outcome_.unknown += thread.known == Known::nothing;
    }
    Identity identity;
    identity.pid = inner_tid(pid_, pid_);
    identity.ppid = static_cast<std::int32_t>(std::atol(status_line(status, "PPid").c_str()));
    identity.uid = static_cast<std::uint32_t>(std::atol(status_line(status, "Uid").c_str()));
    identity.command = own_name(folder + "/comm");
    identity.command_line = own_name(folder + "/cmdline");
    // The core points into this, and stands in the memory that LiveMemory makes of it.
    const slim::Head head = make_head(identity, parse_maps(maps), threads, auxv);
    std::string why;
    auto live = slim::LiveMemory::open(head, pid_, why);
    if (!live) throw EvidenceError(why);
    return live;
  }

  std::int32_t pid_;
  Options options_;
  Outcome outcome_;
};

}  // namespace

void read_process(std::int32_t pid, const Options& options, const Reader& read,
                  const Finish& finish) {
  // Only the thread that attached can detach, and its end frees whatever it could not.
  std::exception_ptr failure;
  std::thread worker([&] {
    try {
      Reading(pid, options).run(read, finish);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  worker.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace pm::live
