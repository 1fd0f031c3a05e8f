#include "unwind/code.h"

#include <algorithm>
#include <array>

#include "unwind/symbol_tables.h"

namespace pm::unwind {
namespace {

// Bytes of the indirect call (opcode FF /2) whose ModRM byte is given, without displacement
// checks; Intel SDM volume 2, tables 2-2 and 2-3.
std::size_t indirect_call_length(std::uint8_t modrm, std::uint8_t sib) {
  if (((modrm >> 3) & 7) != 2) return 0;
  const unsigned mode = modrm >> 6, rm = modrm & 7;
  if (mode == 3) return 2;
  const std::size_t with_sib = rm == 4 ? 3 : 2;
  if (mode == 1) return with_sib + 1;
  if (mode == 2) return with_sib + 4;
  if (rm == 5 || (rm == 4 && (sib & 7) == 5)) return with_sib + 4;
  return with_sib;
}

template <std::size_t N>
bool starts_with(std::span<const std::uint8_t> bytes, const std::array<std::uint8_t, N>& prefix) {
  return bytes.size() >= N && std::equal(prefix.begin(), prefix.end(), bytes.begin());
}

}  // namespace

bool Code::executable(std::uint64_t address) const {
  if (const elfcore::Segment* const segment = memory_.core().segment_at(address)) {
    return (segment->flags & elfcore::kExecute) != 0;
  }
  // Old versions of gcore list no segment for clean file pages: ask the file.
  const elfcore::Module* const module = memory_.modules().at(address);
  if (!module || !module->image) return false;
  const auto& rows = module->image->program_headers();
  return std::any_of(rows.begin(), rows.end(), [&](const Elf64_Phdr& row) {
    return row.p_type == PT_LOAD && (row.p_flags & PF_X) &&
           address - module->bias - row.p_vaddr < row.p_memsz;
  });
}

std::optional<CallSite> Code::call_before(std::uint64_t address) const {
  return memory_.core().machine() == Machine::x86_64 ? call_x86(address) : call_aarch64(address);
}

std::optional<CallSite> Code::call_x86(std::uint64_t address) const {
  constexpr std::size_t kLongest = 7;
  std::array<std::uint8_t, kLongest> bytes{};  // ends at the address
  if (address < kLongest || !memory_.read(address - kLongest, bytes)) return std::nullopt;
  if (bytes[2] == 0xe8) {
    const auto distance = *load<std::int32_t>(bytes, 3);
    const std::uint64_t target = address + static_cast<std::uint64_t>(std::int64_t{distance});
    if (executable(target)) {
      if (is_stub(target)) return through_stub(target);
      return CallSite{target, std::nullopt};
    }
  }
  for (std::size_t length = 2; length <= kLongest; ++length) {
    const std::size_t at = kLongest - length;
    if (bytes[at] != 0xff) continue;
    const std::uint8_t sib = length > 2 ? bytes[at + 2] : 0;
    if (indirect_call_length(bytes[at + 1], sib) == length) return CallSite{};
  }
  return std::nullopt;
}

// BL, BLR, and BLRAA and its kin: Arm ARM (DDI 0487), section C4.1.
std::optional<CallSite> Code::call_aarch64(std::uint64_t address) const {
  if (address < 4 || (address & 3)) return std::nullopt;
  const auto word = memory_.get<std::uint32_t>(address - 4);
  if (!word) return std::nullopt;
  if ((*word & 0xfc000000) == 0x94000000) {
    const auto words = static_cast<std::int32_t>(*word << 6) >> 6;
    const std::uint64_t target = address - 4 + static_cast<std::uint64_t>(std::int64_t{words}) * 4;
    if (is_stub(target)) return through_stub(target);
    return CallSite{target, std::nullopt};
  }
  const bool blr = (*word & 0xfffffc1f) == 0xd63f0000;
  const bool authenticated = (*word & 0xfefff000) == 0xd63f0000 && (*word & 0x800) != 0;
  if (blr || authenticated) return CallSite{};
  return std::nullopt;
}

// PLT entries and thunks: they jump on, so that the function that runs is not the one called.
bool Code::is_stub(std::uint64_t address) const {
  if (memory_.core().machine() == Machine::aarch64) {
    auto word = memory_.get<std::uint32_t>(address);
    if (word == 0xd503245f) word = memory_.get<std::uint32_t>(address + 4);  // bti c
    if (!word) return true;
    const bool adrp_x16 = (*word & 0x9f00001f) == 0x90000010;
    const bool jump = (*word & 0xfc000000) == 0x14000000;
    return adrp_x16 || jump;
  }
  std::array<std::uint8_t, 8> bytes{};
  if (!memory_.read(address, bytes)) return true;
  std::span<const std::uint8_t> code(bytes);
  if (starts_with(code, std::array<std::uint8_t, 4>{0xf3, 0x0f, 0x1e, 0xfa})) {  // endbr64
    code = code.subspan(4);
  }
  if (code[0] == 0xf2) code = code.subspan(1);  // bnd
  return (code[0] == 0xff && (code[1] & 0x38) == 0x20) || code[0] == 0xe9 || code[0] == 0xeb;
}

// The global offset table lies in data, which cores hold. Before it is bound, a slot leads back
// into the PLT.
CallSite Code::through_stub(std::uint64_t address) const {
  constexpr std::size_t kEntry = 16;
  std::array<std::uint8_t, kEntry> bytes{};
  std::optional<std::uint64_t> slot;
  if (memory_.read(address, bytes)) slot = plt_slot(memory_.core().machine(), bytes, address);
  const auto bound = slot ? memory_.word(*slot) : std::nullopt;
  if (!bound || !executable(*bound) || is_stub(*bound)) return {};
  const elfcore::Module* const here = memory_.modules().at(address);
  if (here && here->contains(*bound)) return {};
  return {std::nullopt, bound};
}

// mov $15,%rax or %eax; syscall (glibc, musl); mov x8,#139; svc #0 (vdso). gdb and libgcc know
// these frames by the same bytes.
bool Code::is_signal_return(std::uint64_t pc, std::uint64_t sp) const {
  std::array<std::uint8_t, 9> bytes{};
  if (memory_.core().machine() == Machine::aarch64) {
    return memory_.get<std::uint64_t>(pc) == 0xd4000001d2801168;
  }
  if (!memory_.read(pc, std::span(bytes).first(7))) return executable(pc) && is_signal_frame(sp);
  if (starts_with(bytes, std::array<std::uint8_t, 7>{0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05})) return true;
  return memory_.read(pc, bytes) &&
         starts_with(bytes,
                     std::array<std::uint8_t, 9>{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05});
}

// x86-64: the ucontext leads to the saved vector registers, which the kernel puts above it and
// marks (struct _fpx_sw_bytes, uapi/asm/sigcontext.h).
bool Code::is_signal_frame(std::uint64_t sp) const {
  constexpr std::uint64_t kVectors = 224, kMark = 464, kMaxDistance = 1024;
  constexpr std::uint32_t kMagic = 0x46505853;  // FP_XSTATE_MAGIC1
  const auto vectors = memory_.word(sp + kVectors);
  return vectors && *vectors % 64 == 0 && *vectors - sp < kMaxDistance &&
         memory_.get<std::uint32_t>(*vectors + kMark) == kMagic;
}

std::uint64_t Code::stripped(std::uint64_t address) const {
  if (memory_.core().machine() == Machine::x86_64 || executable(address)) return address;
  // The signature fills the bits above the virtual address; Linux gives processes 48 bits of it
  // unless they ask for more (Documentation/arch/arm64/memory.rst).
  return address & ((std::uint64_t{1} << 48) - 1);
}

}  // namespace pm::unwind
