#include "elfcore/slim_note.h"

#include <cstring>

namespace pm::elfcore {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kSpooled = 1;  // flags
constexpr std::size_t kNameSize = 16;  // TASK_COMM_LEN

template <class T>
void put(std::vector<std::uint8_t>& out, T value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

bool plausible(const SlimSegment& row, std::uint64_t covered) {
  return row.size > 0 && row.start >= covered && row.size <= UINT64_MAX - row.start &&
         row.dumped <= row.size && row.present <= row.dumped;
}

}  // namespace

std::vector<std::uint8_t> encode_slim(const SlimInfo& info) {
  std::vector<std::uint8_t> out;
  put(out, kVersion);
  put(out, info.spooled ? kSpooled : std::uint32_t{0});
  put(out, info.source_bytes);
  put(out, info.expected_bytes);
  put(out, info.lost_bytes);
  put(out, std::uint64_t{info.segments.size()});
  put(out, std::uint64_t{info.threads.size()});
  for (const SlimSegment& row : info.segments) {
    put(out, row.start);
    put(out, row.size);
    put(out, row.dumped);
    put(out, row.present);
    put(out, std::uint64_t{row.flags});
  }
  for (const auto& [tid, name] : info.threads) {
    put(out, tid);
    std::string field = name.substr(0, kNameSize - 1);
    field.resize(kNameSize);
    out.insert(out.end(), field.begin(), field.end());
  }
  return out;
}

std::optional<SlimInfo> decode_slim(Bytes content) {
  Cursor cursor(content);
  SlimInfo info;
  if (cursor.u32() != kVersion) return std::nullopt;
  info.spooled = (cursor.u32() & kSpooled) != 0;
  info.source_bytes = cursor.u64();
  info.expected_bytes = cursor.u64();
  info.lost_bytes = cursor.u64();
  const std::uint64_t segments = cursor.u64();
  const std::uint64_t threads = cursor.u64();
  if (!cursor.ok() || segments > cursor.left() / 40 ||
      threads > (cursor.left() - segments * 40) / (4 + kNameSize)) {
    return std::nullopt;
  }
  std::uint64_t covered = 0;
  info.segments.reserve(segments);
  for (std::uint64_t i = 0; i < segments; ++i) {
    SlimSegment row;
    row.start = cursor.u64();
    row.size = cursor.u64();
    row.dumped = cursor.u64();
    row.present = cursor.u64();
    row.flags = static_cast<std::uint32_t>(cursor.u64());
    if (!plausible(row, covered)) return std::nullopt;
    covered = row.start + row.size;
    info.segments.push_back(row);
  }
  for (std::uint64_t i = 0; i < threads; ++i) {
    const auto tid = cursor.get<std::int32_t>();
    info.threads.emplace(tid, std::string(pm::c_string(cursor.take(kNameSize), 0)));
  }
  if (!cursor.ok()) return std::nullopt;
  return info;
}

}  // namespace pm::elfcore
