// A stand-in "musa" device for tests: torch's PrivateUse1 on host memory.
//
// Loaded by torch.ops.load_library and ctypes, so it needs no Python headers; it must be built for
// each version of torch, not for each Python. It proves musadoctor's own code, not MUSA.
//
// Read from the environment when it is loaded:
//   FAKE_MUSA_DEVICES=N        how many devices there are (2)
//   FAKE_MUSA_MEMORY_MIB=N     memory of each (1024); asking for more is out of memory
//   FAKE_MUSA_RAISE=OP,OP      these operators fail: aten::add.Tensor
//   FAKE_MUSA_RAISE_BF16=OP    these fail on bfloat16 alone
//   FAKE_MUSA_WRONG=OP         these give NaN
//   FAKE_MUSA_HANG=OP          these never return
//   FAKE_MUSA_CRASH=OP         these end the process with SIGSEGV
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/add.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using at::Tensor;
constexpr auto kMusa = c10::DeviceType::PrivateUse1;
constexpr int kMostDevices = 64;

int number_from(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? std::atoi(value) : otherwise;
}

std::set<std::string> names_from(const char* variable) {
  std::set<std::string> names;
  const char* value = std::getenv(variable);
  std::stringstream text(value != nullptr ? value : "");
  for (std::string name; std::getline(text, name, ',');) {
    names.insert(name);
  }
  return names;
}

const int device_count = std::min(number_from("FAKE_MUSA_DEVICES", 2), kMostDevices);
const size_t memory_bytes = static_cast<size_t>(number_from("FAKE_MUSA_MEMORY_MIB", 1024)) << 20;
const auto raising = names_from("FAKE_MUSA_RAISE");
const auto raising_on_bf16 = names_from("FAKE_MUSA_RAISE_BF16");
const auto wrong = names_from("FAKE_MUSA_WRONG");
const auto hanging = names_from("FAKE_MUSA_HANG");
const auto crashing = names_from("FAKE_MUSA_CRASH");

thread_local c10::DeviceIndex current_device = 0;

c10::DeviceIndex existing(c10::DeviceIndex index) {
  TORCH_CHECK(index < device_count, "MUSA error: invalid device ordinal");
  return index < 0 ? current_device : index;
}

// The faults that were asked for, before an operator does its work.
void trouble(const std::string& op, c10::ScalarType dtype) {
  const bool raises = raising.count(op) || (dtype == at::kBFloat16 && raising_on_bf16.count(op));
  TORCH_CHECK(!raises, "MUSA error: the kernel of ", op, " failed on ", c10::toString(dtype));
  if (crashing.count(op)) {
    std::raise(SIGSEGV);
  }
  while (hanging.count(op)) {
    ::pause();
  }
}

// ---- memory ----------------------------------------------------------------------------------

std::atomic<size_t> used_bytes[kMostDevices];

struct Block {
  void* data;
  size_t bytes;
  c10::DeviceIndex device;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  used_bytes[block->device] -= block->bytes;
  std::free(block->data);
  delete block;
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = current_device;
    if (used_bytes[device].fetch_add(bytes) + bytes > memory_bytes) {
      used_bytes[device] -= bytes;
      TORCH_CHECK_WITH(OutOfMemoryError, false, "MUSA out of memory: ", bytes, " bytes");
    }
    void* data = nullptr;
    if (bytes != 0 && posix_memalign(&data, 64, bytes) != 0) {
      throw std::bad_alloc();
    }
    return {data, new Block{data, bytes, device}, &release, c10::Device(kMusa, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(kMusa, &allocator);

// ---- devices, streams, generators ------------------------------------------------------------

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kMusa; }
  c10::Device getDevice() const override { return {kMusa, current_device}; }
  void setDevice(c10::Device device) const override { current_device = existing(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    current_device = device.index();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count);
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

// ---- operators of the device's own -----------------------------------------------------------

// The same memory as a tensor of the host.
Tensor on_host(const Tensor& tensor) {
  if (tensor.is_cpu()) {
    return tensor;
  }
  const auto options = at::TensorOptions(tensor.scalar_type()).device(at::kCPU);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

c10::Device chosen(std::optional<c10::Device> device) {
  return {kMusa, existing(device.has_value() ? device->index() : current_device)};
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<c10::Device> device, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(chosen(device));
  return at::detail::empty_generic(size, &allocator, kKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<c10::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(chosen(device));
  return at::detail::empty_strided_generic(size, stride, &allocator, kKeys,
                                           c10::dtype_or_default(dtype));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  if (from.numel() != 0) {
    on_host(to).copy_(on_host(from));
  }
  return to;
}

const Tensor& resize_to(const Tensor& self, c10::IntArrayRef size,
                        std::optional<at::MemoryFormat>) {
  const c10::DeviceGuard guard(self.device());
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), size, std::nullopt);
  return self;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  resize_to(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

at::Scalar item(const Tensor& tensor) { return on_host(tensor).item(); }

Tensor& set_storage(Tensor& self, at::Storage storage, int64_t offset, c10::IntArrayRef size,
                    c10::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(storage), offset, size, stride);
}

Tensor add(const Tensor& left, const Tensor& right, const at::Scalar& alpha) {
  const std::string op = "aten::add.Tensor";
  trouble(op, left.scalar_type());
  const auto sum = at::add(on_host(left), on_host(right), alpha);
  auto result = at::empty(sum.sizes(), left.options().dtype(sum.scalar_type()));
  on_host(result).copy_(sum);
  if (wrong.count(op)) {
    on_host(result).fill_(NAN);
  }
  return result;
}

// All else is computed on the host.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  trouble(c10::toString(op.operator_name()), at::kFloat);
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", item);
  library.impl("resize_", resize_to);
  library.impl("view", at::native::view);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("add.Tensor", add);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace

extern "C" {
int fake_musa_device_count() { return device_count; }
size_t fake_musa_memory_bytes() { return memory_bytes; }
size_t fake_musa_used_bytes(int device) { return used_bytes[device]; }
}
