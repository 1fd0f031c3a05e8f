// A file mapped for reading.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"

namespace pm {

// Read-only mapping of a whole regular file, with random-access advice unless all of it is read:
// read-ahead on a core costs hundreds of megabytes of disk reads for the few pages of a report.
class MappedFile {
 public:
  enum class Reading { here_and_there, from_start_to_end };

  // Null when it cannot be mapped; then `error` says why, in words without the path.
  static std::shared_ptr<const MappedFile> open(const std::string& path, std::string& error,
                                                Reading reading = Reading::here_and_there);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Bytes bytes() const noexcept { return bytes_; }

 private:
  MappedFile() = default;
  Bytes bytes_;
  int slot_ = -1;
};

// While one lives, a page of a mapped file that cannot be read (the file was cut meanwhile, a disk
// or network error) reads as zeros instead of killing the process by SIGBUS. `lost_pages` counts
// them. Signals that have nothing to do with our mappings go to the handler that was there before.
class SigbusGuard {
 public:
  SigbusGuard();
  ~SigbusGuard();
  SigbusGuard(const SigbusGuard&) = delete;
  SigbusGuard& operator=(const SigbusGuard&) = delete;
  unsigned lost_pages() const noexcept;
};

}  // namespace pm
