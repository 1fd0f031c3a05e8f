// What of DLPack 1.3 is used here: the layout of structs that other libraries fill in.
//
// After the specification, https://dmlc.github.io/dlpack/latest/c_api.html. The names are theirs.
#pragma once

#include <cstdint>

namespace pm::dlpack {

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
constexpr std::int32_t kDLCPU = 1;
constexpr std::int32_t kDLCUDA = 2;
constexpr std::int32_t kDLCUDAHost = 3;
constexpr std::int32_t kDLROCMHost = 11;
constexpr std::int32_t kDLCUDAManaged = 13;

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null for C order
  std::uint64_t byte_offset;
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct DLManagedTensor {  // before version 1
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

// Found as `__dlpack_c_exchange_api__` on a type, in a capsule "dlpack_exchange_api".
struct DLPackExchangeAPIHeader {
  DLPackVersion version;
  DLPackExchangeAPIHeader* prev_api;
};

struct DLPackExchangeAPI {
  DLPackExchangeAPIHeader header;
  void* managed_tensor_allocator;
  void* managed_tensor_from_py_object_no_sync;
  void* managed_tensor_to_py_object_no_sync;
  // Fills in a view that is valid as long as the object is; may be null.
  int (*dltensor_from_py_object_no_sync)(void* object, DLTensor* out);
  // Gives the stream that its library would launch on now; may be null.
  int (*current_work_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};

}  // namespace pm::dlpack
