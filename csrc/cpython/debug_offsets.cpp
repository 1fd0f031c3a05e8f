#include "cpython/debug_offsets.h"

#include <array>
#include <initializer_list>

namespace pm::cpython {
namespace {

// The first minor version that publishes offsets, and the last of a free-threaded build.
constexpr unsigned kFirst = 13, kLastFreeThreaded = 14;

// Takes the values of one group after another. The structure does not tell its own size, and
// fields were put into the middle of groups (3.14, 3.15b4: bloomberg/pystack#337), so the order is
// known per minor version only.
class Groups {
 public:
  explicit Groups(Bytes values) noexcept : cursor_(values) {}

  void skip(unsigned count) noexcept { cursor_.skip(std::uint64_t{8} * count); }
  // Into each field the next value; null skips one.
  void take(std::initializer_list<std::int32_t*> fields) noexcept {
    for (std::int32_t* const field : fields) {
      const std::uint64_t value = cursor_.u64();
      // No structure of CPython reaches 16 MiB: what says so is not an offset.
      if (value >= 1u << 24) sane_ = false;
      if (field) *field = static_cast<std::int32_t>(value);
    }
  }
  bool ok() const noexcept { return sane_ && cursor_.ok(); }

 private:
  Cursor cursor_;
  bool sane_ = true;
};

// The state words of the GIL are given from the start of the interpreter, but for `enabled`, which
// counts from the GIL's own start; `own` is where the interpreter keeps its GIL.
struct GilWords {
  std::int32_t own = 0, enabled = 0, locked = 0, holder = 0;
};

// Free-threaded builds (PEP 703; Include/object.h, pycore_object.h of 3.13 and 3.14) put 16 bytes
// into each object's head, and nothing else in front of the fields that are not published. They
// have no head of the garbage collector, so the managed dict stands right in front of the object.
constexpr std::int32_t kLongerHead = 16;
constexpr std::array kBehindHead = {
    &Layout::frame_back,         &Layout::frame_iframe,
    &Layout::code_slots,         &Layout::code_exception_table,
    &Layout::exception_args,     &Layout::exception_traceback,
    &Layout::exception_context,  &Layout::exception_cause,
    &Layout::exception_suppress, &Layout::os_errno,
    &Layout::os_strerror,        &Layout::os_filename,
    &Layout::os_filename2,       &Layout::traceback_next,
    &Layout::traceback_frame,    &Layout::traceback_lasti,
    &Layout::traceback_line,     &Layout::type_basic_size,
    &Layout::type_base,          &Layout::type_dict,
    &Layout::type_dict_offset,   &Layout::type_qualname,
    &Layout::type_cached_keys,   &Layout::set_used,
    &Layout::cell_value,         &Layout::dict_used,
};

void lengthen_heads(Layout& layout) {
  for (std::int32_t Layout::* const field : kBehindHead) {
    if (layout.*field >= 0) layout.*field += kLongerHead;
  }
  layout.object_dict = -8;
}

bool fill(Layout& layout, Bytes values, unsigned minor, bool free_threaded) {
  if (free_threaded) lengthen_heads(layout);
  Groups groups(values);
  GilWords gil;
  std::int32_t ascii = 0;
  const bool since_14 = minor >= 14, since_15 = minor >= 15;
  groups.take({nullptr, nullptr, &layout.runtime_interpreters});
  groups.take({nullptr, nullptr, &layout.interp_next, &layout.interp_threads});
  if (since_14) groups.skip(1);  // threads_main
  groups.take({nullptr, &layout.interp_modules, &layout.interp_sysdict, nullptr, &layout.interp_gil,
               &gil.own, &gil.enabled, &gil.locked, &gil.holder});
  if (since_14) groups.skip(2);  // code_object_generation, tlbc_generation
  groups.take(
      {nullptr, nullptr, &layout.thread_next, &layout.thread_interp, &layout.thread_current_frame});
  if (since_15) groups.skip(3);  // base_frame, last_profiled_frame and its number
  groups.take({&layout.thread_ident, &layout.thread_native_id, nullptr, nullptr});
  // holds_gil, gil_requested, current_exception, exc_state; exc_value of an entry of its stack.
  if (since_15) {
    groups.take({nullptr, nullptr, &layout.thread_raised, nullptr, &layout.handled_value});
  }
  groups.take({nullptr, &layout.iframe_previous, &layout.iframe_code, &layout.iframe_instr,
               &layout.iframe_locals, &layout.iframe_owner});
  if (since_14) groups.take({&layout.iframe_stack, &layout.iframe_tlbc});
  groups.take({nullptr, &layout.code_file, &layout.code_name, &layout.code_qualname,
               &layout.code_lines, &layout.code_first_line, nullptr, &layout.code_names,
               &layout.code_kinds, &layout.code_instructions});
  if (since_14) groups.take({&layout.code_tlbc});
  groups.take({&layout.object_head, &layout.object_type});
  groups.take({nullptr, &layout.type_name, nullptr, &layout.type_flags});
  if (since_15) {
    groups.take({&layout.type_basic_size, &layout.type_dict_offset});
    groups.take({nullptr, &layout.type_cached_keys});
    // PyHeapTypeObject: ht_qualname and ht_cached_keys are neighbours in all versions.
    layout.type_qualname = layout.type_cached_keys - 8;
  }
  groups.take({nullptr, &layout.tuple_items, nullptr});
  groups.take({nullptr, &layout.list_items, nullptr});
  if (since_14) groups.take({nullptr, &layout.set_used, nullptr, nullptr});
  groups.take({nullptr, &layout.dict_keys, &layout.dict_values});
  groups.take({nullptr, &layout.float_value});
  groups.take({nullptr, &layout.int_size, &layout.int_digits});
  groups.take({nullptr, nullptr, &layout.bytes_data});
  groups.take({nullptr, &layout.text_state, &layout.text_length, &ascii});
  layout.text_compact = ascii + 16;  // utf8_length, utf8
  if (since_15) groups.take({&layout.text_compact});
  if (!groups.ok()) return false;
  layout.text_ascii = ascii;
  layout.text_data = layout.text_compact;
  layout.gil_locked = gil.locked - gil.own;
  layout.gil_holder = gil.holder - gil.own;
  if (free_threaded) {
    layout.gil_enabled = gil.enabled;
  } else {
    layout.iframe_tlbc = layout.code_tlbc = -1;
  }
  // Not published; these distances are the same in 3.12 to 3.15.
  layout.code_first_traceable =
      (layout.code_tlbc > 0 ? layout.code_tlbc : layout.code_instructions) - 16;
  if (!since_15) layout.thread_raised = layout.thread_current_frame + 40;
  layout.thread_exc_info = layout.thread_raised + 8;
  if (head_growth(layout) != (free_threaded ? kLongerHead : 0) ||
      layout.object_type != layout.object_head - 8) {
    return false;
  }
  return layout.gil_locked >= 0 && layout.gil_holder >= 0 && layout.code_first_traceable >= 0;
}

}  // namespace

std::optional<DebugOffsets> read_debug_offsets(const elfcore::Memory& memory,
                                               std::uint64_t address) {
  std::array<std::uint8_t, 8 * 128> block{};
  if (!memory.read(address, block)) return std::nullopt;
  if (!as_text(block).starts_with(kDebugCookie)) return std::nullopt;
  DebugOffsets result;
  Cursor cursor(block, kDebugCookie.size());
  const std::uint64_t version = cursor.u64();
  const std::uint64_t free_threaded = cursor.u64();
  if (version > UINT32_MAX || version >> 24 != 3) return std::nullopt;
  result.version.hex = static_cast<std::uint32_t>(version);
  const unsigned minor = result.version.minor();
  const std::string name = "CPython " + version_text(result.version);
  if (free_threaded != 0 && minor > kLastFreeThreaded) {
    result.refused = name + " is a free-threaded build, of which only 3.13 and 3.14 are known";
  } else if (minor < kFirst || minor > kNewest) {
    result.refused = name + " is not known";
  } else if (result.version.level() < 0xc) {
    result.refused = name + " is a pre-release, whose structures may differ from the release's";
  } else {
    // For what is not published; later versions are as 3.13 there (their headers; real cores).
    result.layout = nearest_table(Version{0x030d00f0})->layout;
    if (!fill(result.layout, Bytes(block).subspan(24), minor, free_threaded != 0)) {
      result.refused = "the offsets that " + name + " publishes make no sense";
    }
  }
  return result;
}

}  // namespace pm::cpython
