#include "unwind/debug_files.h"

#include <array>

#ifdef POSTMORTEM_LZMA
#include <lzma.h>
#endif

namespace pm::unwind {
namespace {

using elfcore::Image;
using elfcore::Module;

#ifdef POSTMORTEM_LZMA
constexpr std::size_t kMaxMiniData = std::size_t{64} << 20;
constexpr std::uint64_t kMaxLzmaMemory = std::uint64_t{128} << 20;
#endif

// CRC-32 as in .gnu_debuglink: reflected, polynomial 0xedb88320.
std::uint32_t crc32(Bytes bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> rows{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xedb88320u : 0);
      rows[i] = value;
    }
    return rows;
  }();
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : bytes) crc = (crc >> 8) ^ table[(crc ^ byte) & 0xff];
  return ~crc;
}

std::shared_ptr<const Image> by_build_id(const std::string& id, const std::string& sysroot) {
  if (id.size() < 4) return nullptr;
  std::string error;
  auto image = Image::open(
      sysroot + "/usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug",
      error);
  if (!image || image->build_id() != id) return nullptr;
  return image;
}

std::shared_ptr<const Image> by_link(const Module& module, const std::string& sysroot) {
  const auto section = module.image->section(".gnu_debuglink");
  if (!section) return nullptr;
  const Bytes content = module.image->content(*section);
  const std::string name(c_string(content, 0));
  // A name with a slash could lead anywhere.
  if (name.empty() || name.find('/') != std::string::npos) return nullptr;
  const auto checksum = load<std::uint32_t>(content, (name.size() + 4) & ~std::uint64_t{3});
  if (!checksum) return nullptr;
  const std::string mapped_folder = module.path.substr(0, module.path.rfind('/') + 1);
  const std::string folder = module.disk_path.substr(0, module.disk_path.rfind('/') + 1);
  for (const std::string& path : {folder + name, folder + ".debug/" + name,
                                  sysroot + "/usr/lib/debug" + mapped_folder + name}) {
    std::string error;
    if (path == module.disk_path) continue;
    auto image = Image::open(path, error);
    if (!image || image->machine() != module.image->machine()) continue;
    const auto& id = module.image->build_id();
    const bool same =
        id && image->build_id() ? *id == *image->build_id() : crc32(image->bytes()) == *checksum;
    if (same) return image;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const Image> separate_debug_file(const Module& module, const std::string& sysroot) {
  if (!module.image) return nullptr;
  const auto& id = module.image->build_id();
  if (id) {
    if (auto image = by_build_id(*id, sysroot)) return image;
  }
  return by_link(module, sysroot);
}

std::shared_ptr<const Image> debug_image(const Module& module, const std::string& sysroot) {
  if (!module.image) return nullptr;
  if (module.image->has_debug_lines()) return module.image;
  auto separate = separate_debug_file(module, sysroot);
  return separate && separate->has_debug_lines() ? separate : nullptr;
}

#ifdef POSTMORTEM_LZMA
bool can_unpack_lzma() { return true; }

std::vector<std::uint8_t> mini_debug_data(const Image& image) {
  const auto section = image.section(".gnu_debugdata");
  if (!section) return {};
  const Bytes packed = image.content(*section);
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMaxLzmaMemory, 0) != LZMA_OK) return {};
  std::vector<std::uint8_t> result;
  std::vector<std::uint8_t> chunk(std::size_t{1} << 16);
  stream.next_in = packed.data();
  stream.avail_in = packed.size();
  lzma_ret status = LZMA_OK;
  while (status == LZMA_OK && result.size() < kMaxMiniData) {
    stream.next_out = chunk.data();
    stream.avail_out = chunk.size();
    status = lzma_code(&stream, LZMA_FINISH);
    result.insert(result.end(), chunk.begin(),
                  chunk.end() - static_cast<std::ptrdiff_t>(stream.avail_out));
  }
  lzma_end(&stream);
  if (status != LZMA_STREAM_END) result.clear();
  return result;
}
#else
bool can_unpack_lzma() { return false; }

std::vector<std::uint8_t> mini_debug_data(const Image&) { return {}; }
#endif

}  // namespace pm::unwind
