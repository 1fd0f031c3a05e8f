#include "bind/scan_tensors.h"

#include <optional>
#include <utility>

namespace pm::bind {
namespace {

using namespace dlpack;

struct Trusted {
  PyTypeObject* type;
  const DLPackExchangeAPI* api;
};
constexpr std::size_t kMostTypes = 8;
Trusted trusted[kMostTypes];
std::size_t trusted_count = 0;

struct Kind {
  std::uint8_t code;
  std::uint8_t bits;
  scan::Format format;
  bool complex;
  const char* dtype;
};

// DLPack's codes of data types, those of training first.
constexpr Kind kKinds[] = {
    {2, 32, scan::Format::f32, false, "float32"},
    {4, 16, scan::Format::bf16, false, "bfloat16"},
    {2, 16, scan::Format::f16, false, "float16"},
    {0, 8, scan::Format::i8, false, "int8"},
    {0, 16, scan::Format::i16, false, "int16"},
    {0, 32, scan::Format::i32, false, "int32"},
    {0, 64, scan::Format::i64, false, "int64"},
    {1, 8, scan::Format::u8, false, "uint8"},
    {1, 16, scan::Format::u16, false, "uint16"},
    {1, 32, scan::Format::u32, false, "uint32"},
    {1, 64, scan::Format::u64, false, "uint64"},
    {2, 64, scan::Format::f64, false, "float64"},
    {5, 32, scan::Format::f16, true, "complex32"},
    {5, 64, scan::Format::f32, true, "complex64"},
    {5, 128, scan::Format::f64, true, "complex128"},
    {6, 8, scan::Format::boolean, false, "bool"},
    {10, 8, scan::Format::e4m3fn, false, "float8_e4m3fn"},
    {11, 8, scan::Format::e4m3fnuz, false, "float8_e4m3fnuz"},
    {12, 8, scan::Format::e5m2, false, "float8_e5m2"},
    {13, 8, scan::Format::e5m2fnuz, false, "float8_e5m2fnuz"},
    {14, 8, scan::Format::e8m0fnu, false, "float8_e8m0fnu"},
};

// The names of complex types; `format` is that of the components.
constexpr std::pair<const char*, scan::Format> kComplex[] = {
    {"complex32", scan::Format::f16},
    {"complex64", scan::Format::f32},
    {"complex128", scan::Format::f64},
};

const Kind* kind_of(DLDataType type) {
  if (type.lanes != 1) return nullptr;
  for (const Kind& kind : kKinds) {
    if (kind.code == type.code && kind.bits == type.bits) return &kind;
  }
  return nullptr;
}

Taken take(const DLTensor& tensor, Held& held) {
  const std::int32_t device = tensor.device.device_type;
  const bool on_cuda = device == kDLCUDA || device == kDLCUDAManaged;
  if (!on_cuda && device != kDLCPU && device != kDLCUDAHost && device != kDLROCMHost) {
    return Taken::no;
  }
  const Kind* kind = kind_of(tensor.dtype);
  if (kind == nullptr || tensor.ndim < 0) return Taken::no;
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  const std::span<const std::int64_t> shape(tensor.shape, rank);
  const std::optional<std::uint64_t> count = scan::element_count(shape);
  if (!count || (*count != 0 && tensor.data == nullptr)) return Taken::no;  // DTensor, FakeTensor
  held.array.data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  held.array.format = kind->format;
  held.array.complex = kind->complex;
  held.dtype = kind->dtype;
  held.lay_out(tensor.shape, *count == 0 ? nullptr : tensor.strides, rank, *count);
  held.device = on_cuda ? tensor.device.device_id : -1;
  return on_cuda ? Taken::on_cuda : Taken::yes;
}

// Below it there is memory only of executables that do not move (their heap), and of some GPUs.
constexpr std::uintptr_t kUsualMemory = std::uintptr_t{1} << 40;

// Whether a tensor may lie on a storage without memory, for which PyTorch gives the tensor's offset
// in the storage as its address: FSDP frees and fills the storages of parameters again and again.
bool may_be_freed(const Held& held) {
  return held.array.elements != 0 &&
         reinterpret_cast<std::uintptr_t>(held.array.data) < kUsualMemory;
}

// Whether it does; also if its offset cannot be asked for.
bool is_freed(PyObject* object, const Held& held) {
  static PyObject* const name = PyUnicode_InternFromString("storage_offset");
  PyObject* const offset = name == nullptr ? nullptr : PyObject_CallMethodNoArgs(object, name);
  const unsigned long long elements = offset == nullptr ? 0 : PyLong_AsUnsignedLongLongMask(offset);
  Py_XDECREF(offset);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return true;
  }
  const std::uint64_t item_bytes = scan::bytes_of(held.array) / held.array.elements;
  return reinterpret_cast<std::uintptr_t>(held.array.data) == elements * item_bytes;
}

}  // namespace

void Held::lay_out(const std::int64_t* shape, const std::int64_t* strides, std::size_t rank,
                   std::uint64_t count) {
  array.elements = count;
  bool in_order = true;
  std::int64_t expected = 1;
  for (std::size_t i = rank; strides != nullptr && i-- > 0;) {
    if (shape[i] == 1) continue;
    in_order = in_order && strides[i] == expected;
    expected *= shape[i];
  }
  std::int64_t* room = few_;
  if (2 * rank > std::size(few_)) {
    many_.resize(2 * rank);
    room = many_.data();
  }
  for (std::size_t i = 0; i < rank; ++i) room[i] = shape[i];
  array.shape = {room, rank};
  array.strides = {};
  if (in_order) return;
  for (std::size_t i = 0; i < rank; ++i) room[rank + i] = strides[i];
  array.strides = {room + rank, rank};
}

bool name_dtype(std::string_view dtype, Held& held) {
  for (const auto& [name, format] : kComplex) {
    if (dtype != name) continue;
    held.dtype = name;
    held.array.format = format;
    held.array.complex = true;
    return true;
  }
  const auto format = scan::format_named(dtype);
  if (!format) return false;
  held.dtype = scan::format_name(*format).data();
  held.array.format = *format;
  return true;
}

Taken take_trusted(PyObject* object, Held& held, bool may_call) {
  PyTypeObject* const type = Py_TYPE(object);
  for (std::size_t i = 0; i < trusted_count; ++i) {
    if (trusted[i].type != type) continue;
    DLTensor tensor{};
    if (trusted[i].api->dltensor_from_py_object_no_sync(object, &tensor) != 0) {
      // Sparse, quantised, meta and the like: the one who asks next names the kind.
      PyErr_Clear();
      return Taken::no;
    }
    const Taken taken = take(tensor, held);
    if (taken == Taken::no) return taken;
    if (may_be_freed(held) && (!may_call || is_freed(object, held))) return Taken::no;
    if (taken != Taken::on_cuda) return taken;
    const auto stream_of = trusted[i].api->current_work_stream;
    if (stream_of == nullptr) return Taken::no;
    if (stream_of(tensor.device.device_type, held.device, &held.stream) == 0) return taken;
    PyErr_Clear();
    return Taken::no;
  }
  return Taken::no;
}

bool is_trusted(PyObject* object) {
  for (std::size_t i = 0; i < trusted_count; ++i) {
    if (trusted[i].type == Py_TYPE(object)) return true;
  }
  return false;
}

PyObject* trust_type(PyObject*, PyObject* args) {
  PyObject* type = nullptr;
  PyObject* capsule = nullptr;
  if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &type, &capsule)) return nullptr;
  const auto* header = static_cast<const DLPackExchangeAPIHeader*>(
      PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  if (header == nullptr) return nullptr;
  while (header != nullptr && header->version.major != 1) header = header->prev_api;
  const auto* api = reinterpret_cast<const DLPackExchangeAPI*>(header);
  if (api == nullptr || api->dltensor_from_py_object_no_sync == nullptr) Py_RETURN_FALSE;
  for (std::size_t i = 0; i < trusted_count; ++i) {
    if (trusted[i].type == reinterpret_cast<PyTypeObject*>(type)) Py_RETURN_TRUE;
  }
  if (trusted_count == kMostTypes) Py_RETURN_FALSE;
  // Both stay for the life of the process: the type and the library behind its table.
  trusted[trusted_count++] = {reinterpret_cast<PyTypeObject*>(Py_NewRef(type)), api};
  Py_INCREF(capsule);
  Py_RETURN_TRUE;
}

Taken take_capsule(PyObject* capsule, Held& held) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    return managed->version.major == 1 ? take(managed->dl_tensor, held) : Taken::no;
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    return take(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor,
                held);
  }
  PyErr_SetString(PyExc_TypeError, "__dlpack__() gave no capsule of DLPack");
  return Taken::error;
}

}  // namespace pm::bind
