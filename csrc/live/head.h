// The head of a core, made of what /proc says of a live process; its memory is read where it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "live/tracees.h"
#include "slim/head.h"

namespace pm::live {

// One line of /proc/PID/maps.
struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file, in bytes
  std::uint32_t flags = 0;   // kRead, kWrite, kExecute
  std::string_view path;     // as the kernel writes it, also "[stack]"
};

// The lines that can be understood, in their order; the paths point into the text.
std::vector<Mapping> parse_maps(std::string_view text);

// What the notes tell beside the threads.
struct Identity {
  std::int32_t pid = 0;  // as the process itself knows it
  std::int32_t ppid = 0;
  std::uint32_t uid = 0;
  std::string command;
  std::string command_line;
};

// Throws EvidenceError when there is nothing of a process in it.
slim::Head make_head(const Identity& identity, const std::vector<Mapping>& maps,
                     const std::vector<ThreadRegisters>& threads, std::string_view auxv);

}  // namespace pm::live
