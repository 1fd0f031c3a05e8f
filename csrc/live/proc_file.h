// Files of /proc: text of unknown length that is made while it is read.
#pragma once

#include <cstdint>
#include <string>

namespace pm::live {

std::string process_folder(std::int32_t pid);
std::string task_folder(std::int32_t pid, std::int32_t tid);

// The content, at most `limit` bytes; what cannot be read is empty.
std::string read_proc_file(const std::string& path, std::size_t limit = 64 << 10);

}  // namespace pm::live
