#include "live/head.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace pm::live {
namespace {

constexpr std::size_t kMaxMappings = 1 << 20;
constexpr std::uint32_t kNoteFile = 0x46494c45;  // NT_FILE, "FILE"

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    const auto* const at = reinterpret_cast<const std::uint8_t*>(&value);
    bytes_.insert(bytes_.end(), at, at + sizeof value);
  }
  void text(std::string_view value) { bytes_.insert(bytes_.end(), value.begin(), value.end()); }
  void zeros(std::size_t count) { bytes_.insert(bytes_.end(), count, 0); }
  // A field of a fixed size, always with a NUL at its end.
  void field(std::string_view value, std::size_t size) {
    const std::string_view kept = value.substr(0, size - 1);
    text(kept);
    zeros(size - kept.size());
  }
  std::size_t size() const noexcept { return bytes_.size(); }
  std::vector<std::uint8_t>& bytes() noexcept { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

void note(Writer& to, std::uint32_t type, std::string_view name, Writer& content) {
  to.put(Elf64_Nhdr{static_cast<Elf64_Word>(name.size() + 1),
                    static_cast<Elf64_Word>(content.size()), type});
  to.text(name);
  to.zeros((name.size() + 4) / 4 * 4 - name.size());
  to.bytes().insert(to.bytes().end(), content.bytes().begin(), content.bytes().end());
  to.zeros((4 - content.size() % 4) % 4);
}

// struct elf_prpsinfo, include/linux/elfcore.h. gdb writes it first, and so tells a snapshot.
Writer process_note(const Identity& identity) {
  Writer row;
  row.zeros(16);
  row.put(identity.uid);
  row.zeros(4);
  row.put(identity.pid);
  row.put(identity.ppid);
  row.zeros(8);
  row.field(identity.command, 16);
  row.field(identity.command_line, 80);
  return row;
}

// struct elf_prstatus.
Writer thread_note(const ThreadRegisters& thread) {
  Writer row;
  row.zeros(32);
  row.put(thread.tid);
  row.zeros(112 - row.size());
  for (std::size_t i = 0; i < thread.registers.count(); ++i) row.put(thread.registers.values[i]);
  row.zeros(8);
  return row;
}

Writer file_note(const std::vector<Mapping>& maps, std::uint64_t page) {
  std::vector<const Mapping*> files;
  for (const Mapping& map : maps) {
    if (map.path.starts_with('/') && !map.path.starts_with("/dev/zero")) files.push_back(&map);
  }
  Writer row;
  row.put(static_cast<std::uint64_t>(files.size()));
  row.put(page);
  for (const Mapping* map : files) {
    row.put(map->start);
    row.put(map->end);
    row.put(map->offset / page);
  }
  for (const Mapping* map : files) {
    row.text(map->path);
    row.zeros(1);
  }
  return row;
}

// Memory of devices is not read: that may have effects, and is refused as a rule.
bool is_memory(const Mapping& map) noexcept {
  const bool device = map.path.starts_with("/dev/") && !map.path.starts_with("/dev/shm/") &&
                      !map.path.starts_with("/dev/zero") && !map.path.starts_with("/dev/hugepages");
  return (map.flags & elfcore::kRead) != 0 && !device && !map.path.starts_with("[vvar") &&
         map.path != "[vsyscall]";
}

bool number(std::string_view text, int base, std::uint64_t& value) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string_view next_field(std::string_view& line) noexcept {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(end);
  return field;
}

}  // namespace

// "7f1c…-7f1c… r-xp 00026000 fe:00 1234   /usr/lib/libc.so.6", proc_pid_maps(5).
std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> found;
  while (!text.empty() && found.size() < kMaxMappings) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view range = next_field(line), flags = next_field(line);
    const std::string_view offset = next_field(line);
    next_field(line);  // device
    next_field(line);  // inode
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    Mapping map;
    const std::size_t dash = range.find('-');
    if (dash == std::string_view::npos || flags.size() < 3) continue;
    if (!number(range.substr(0, dash), 16, map.start) ||
        !number(range.substr(dash + 1), 16, map.end) || !number(offset, 16, map.offset) ||
        map.end <= map.start) {
      continue;
    }
    map.flags = (flags[0] == 'r' ? elfcore::kRead : 0) | (flags[1] == 'w' ? elfcore::kWrite : 0) |
                (flags[2] == 'x' ? elfcore::kExecute : 0);
    map.path = line;
    found.push_back(map);
  }
  return found;
}

slim::Head make_head(const Identity& identity, const std::vector<Mapping>& maps,
                     const std::vector<ThreadRegisters>& threads, std::string_view auxv) {
  if (maps.empty()) throw EvidenceError("has no memory: it has ended, or is a kernel thread");
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  Writer notes;
  Writer process = process_note(identity);
  note(notes, NT_PRPSINFO, "CORE", process);
  for (const ThreadRegisters& thread : threads) {
    Writer row = thread_note(thread);
    note(notes, NT_PRSTATUS, "CORE", row);
    if (own_machine() == elfcore::Machine::aarch64) {
      Writer tls;
      tls.put(thread.tls);
      note(notes, kNoteArmTls, "LINUX", tls);
    }
  }
  Writer vector;
  vector.text(auxv);
  note(notes, NT_AUXV, "CORE", vector);
  Writer files = file_note(maps, page);
  note(notes, kNoteFile, "CORE", files);

  const std::size_t count = maps.size() + 1;
  const std::uint64_t table = sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr);
  const std::uint64_t notes_at = table + count * sizeof(Elf64_Phdr);
  Writer out;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_CORE;
  header.e_machine = static_cast<Elf64_Half>(own_machine());
  header.e_version = EV_CURRENT;
  header.e_phoff = table;
  header.e_shoff = sizeof(Elf64_Ehdr);
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = static_cast<Elf64_Half>(std::min<std::size_t>(count, PN_XNUM));
  out.put(header);
  Elf64_Shdr section{};  // the count of program headers where e_phnum has no room for it
  section.sh_info = static_cast<Elf64_Word>(count);
  out.put(section);
  out.put(Elf64_Phdr{PT_NOTE, 0, notes_at, 0, 0, notes.size(), 0, 4});
  std::uint64_t at = (notes_at + notes.size() + page - 1) / page * page;
  for (const Mapping& map : maps) {
    const std::uint64_t size = map.end - map.start;
    const std::uint64_t present = is_memory(map) ? size : 0;
    out.put(Elf64_Phdr{PT_LOAD, map.flags, at, map.start, 0, present, size, page});
    at += present;
  }
  out.bytes().insert(out.bytes().end(), notes.bytes().begin(), notes.bytes().end());
  slim::Head head;
  head.bytes = std::move(out.bytes());
  head.core = elfcore::Core::parse(head.bytes);
  head.expected_bytes = head.core->expected_size();
  return head;
}

}  // namespace pm::live
