// A stand-in "musa" device for tests: torch's PrivateUse1 on host memory.
//
// Loaded by torch.ops.load_library and ctypes, so it needs no Python headers; it must be built for
// each version of torch, not for each Python. It proves musadoctor's own code, not MUSA. As in
// torch_musa, an operator without a kernel raises NotImplementedError.
//
// Read from the environment when it is loaded, beside the faults of operators in faults.h:
//   FAKE_MUSA_DEVICES=N         how many devices there are (2)
//   FAKE_MUSA_DEVICES_LATER=N   how many there are once FAKE_MUSA_STATE, a file, is there
//   FAKE_MUSA_MEMORY_MIB=N      memory of each (1024); asking for more is out of memory
//   FAKE_MUSA_ROOM_MIB=N        what of it can really be had
//   FAKE_MUSA_LEAK_MIB=N        blocks of at least so much are never given back
//   FAKE_MUSA_CORRUPT=FROM>TO   copies of at least FAKE_MUSA_CORRUPT_BYTES (65536) are damaged;
//                               FROM and TO are `host`, a device's number, or `*`
//   FAKE_MUSA_TRUNCATE=DTYPE    conversion from float32 to bfloat16 cuts digits off
//   FAKE_MUSA_NO_AUTOCAST       operators run under autocast as without it
//   FAKE_MUSA_RAISE_BF16=OP     these fail on bfloat16 alone
#include "host.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>

#include <fcntl.h>

namespace {

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
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    static char any;
    *event = &any;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Generator final : at::CPUGeneratorImpl {
  explicit Generator(c10::DeviceIndex index) : at::CPUGeneratorImpl(c10::default_rng_seed_val) {
    device_ = c10::Device(kMusa, index);
    key_set_ = kKeys;
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return device_count; }
  void setCurrentDevice(c10::DeviceIndex index) const override { current_device = existing(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(current_device, index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(current_device, index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static const auto all = [] {
      std::vector<at::Generator> made;
      for (int i = 0; i < device_count; ++i) {
        made.push_back(at::make_generator<Generator>(i));
      }
      return made;
    }();
    return all.at(existing(index));
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(existing(index));
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

// ---- operators of the device's own -----------------------------------------------------------

c10::Device chosen(std::optional<c10::Device> device) {
  return {kMusa, existing(device.has_value() ? device->index() : current_device)};
}

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

std::string place(const Tensor& tensor) {
  return tensor.is_cpu() ? "host" : std::to_string(tensor.device().index());
}

bool corrupts(const Tensor& from, const Tensor& to) {
  static const char* asked = std::getenv("FAKE_MUSA_CORRUPT");
  static const size_t least = number_from("FAKE_MUSA_CORRUPT_BYTES", 65536);
  if (asked == nullptr || from.nbytes() < least) {
    return false;
  }
  const std::string text(asked);
  const auto arrow = text.find('>');
  const auto fits = [](const std::string& pattern, const std::string& found) {
    return pattern == "*" || pattern == found;
  };
  return fits(text.substr(0, arrow), place(from)) && fits(text.substr(arrow + 1), place(to));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  if (from.numel() == 0) {
    return to;
  }
  const Call call{"aten::_copy_from", to.scalar_type(), (to.is_cpu() ? from : to).device().index()};
  trouble(call);
  const Slowed slowed(call);
  const HostScope scope;
  static const bool truncating = std::getenv("FAKE_MUSA_TRUNCATE") != nullptr;
  auto source = on_host(from);
  if (truncating && !to.is_cpu() && to.scalar_type() == at::kBFloat16 &&
      source.scalar_type() == at::kFloat) {
    source = source.contiguous().view(at::kInt).bitwise_and(~0xffff).view(at::kFloat);
  }
  auto target = on_host(to);
  target.copy_(source);
  if (corrupts(from, to)) {
    auto last = target.flatten()[target.numel() - 1];
    last.copy_(at::isFloatingType(last.scalar_type()) ? last + 1 : last.bitwise_not());
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

at::Scalar item(const Tensor& tensor) {
  trouble({"aten::_local_scalar_dense", tensor.scalar_type(), tensor.device().index()});
  const HostScope scope;
  return on_host(tensor).item();
}

Tensor& set_storage(Tensor& self, at::Storage storage, int64_t offset, c10::IntArrayRef size,
                    c10::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(storage), offset, size, stride);
}

Tensor optional_on_host(const std::optional<Tensor>& tensor) {
  return tensor.has_value() && tensor->defined() ? on_host(*tensor) : Tensor();
}

Tensor convolve(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation,
                bool transposed, c10::IntArrayRef output_padding, int64_t groups) {
  const Call call{"aten::convolution_overrideable", input.scalar_type(), input.device().index()};
  trouble(call);
  const Slowed slowed(call);
  const HostScope scope;
  auto result = at::convolution(on_host(input), on_host(weight), optional_on_host(bias), stride,
                                padding, dilation, transposed, output_padding, groups);
  spoil(call, result);
  return on_device(result.contiguous(), input.device());
}

std::tuple<Tensor, Tensor, Tensor> convolve_backward(
    const Tensor& above, const Tensor& input, const Tensor& weight, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted) {
  const Call call{"aten::convolution_backward_overrideable", input.scalar_type(),
                  input.device().index()};
  trouble(call);
  const Slowed slowed(call);
  const HostScope scope;
  const std::array<int64_t, 1> bias_sizes{above.size(1)};
  auto [one, two, three] = at::convolution_backward(
      on_host(above), on_host(input), on_host(weight), bias_sizes, stride, padding, dilation,
      transposed, output_padding, groups, wanted);
  if (one.defined()) {
    spoil(call, one);
  }
  const auto back = [&](const Tensor& tensor) {
    return tensor.defined() ? on_device(tensor.contiguous(), input.device()) : tensor;
  };
  return {back(one), back(two), back(three)};
}

// There is attention by plain operators only.
int64_t attention_route(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                        double, bool, std::optional<double>, bool) {
  TORCH_CHECK(at::globalContext().userEnabledMathSDP(),
              "No available kernel. Aborting execution.");
  return 0;
}

// ---- what is registered ----------------------------------------------------------------------

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto name = c10::toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(!missing.concerns(name), "Could not run '", name,
                              "' with arguments from the 'musa' backend.");
  at::native::cpu_fallback(op, stack);
}

bool has(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return op.hasKernelForDispatchKey(key);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  const std::set<std::string> own{
      "aten::empty.memory_format", "aten::empty_strided", "aten::_local_scalar_dense",
      "aten::resize_", "aten::view", "aten::as_strided", "aten::_fused_sdp_choice",
      "aten::set_.source_Storage_storage_offset", "aten::record_stream", "aten::_pin_memory"};
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", item);
  library.impl("resize_", resize_to);
  library.impl("view", at::native::view);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("_fused_sdp_choice", attention_route);
  if (!missing.concerns("aten::convolution_overrideable")) {
    library.impl("convolution_overrideable", convolve);
    library.impl("convolution_backward_overrideable", convolve_backward);
  }

  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    const auto text = c10::toString(name);
    if (!op.has_value() || name.name.rfind("aten::", 0) != 0 || own.count(text) ||
        !has(*op, c10::DispatchKey::CPU) || missing.concerns(text) || falling_back.concerns(text)) {
      continue;
    }
    // What is structured calls its `out` form; this one alone has a kernel for both.
    const bool structured = has(*op, c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
    if (!structured || text == "aten::add.Tensor") {
      library.impl(text.substr(6).c_str(),
                   torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
    }
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  if (!falling_back.patterns.empty()) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
  }
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

using namespace at;            // the macros below
using namespace at::autocast;  // expect both

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  if (std::getenv("FAKE_MUSA_NO_AUTOCAST") != nullptr) {
    return;
  }
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(baddbmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(conv2d, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(scaled_dot_product_attention, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(log_softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
  KERNEL_PRIVATEUSEONE(cross_entropy_loss, fp32)
  KERNEL_PRIVATEUSEONE(mse_loss, fp32)
  KERNEL_PRIVATEUSEONE(exp, fp32)
  KERNEL_PRIVATEUSEONE(log, fp32)
  KERNEL_PRIVATEUSEONE(sum, fp32)
  KERNEL_PRIVATEUSEONE(sum, dim_IntList, fp32)
}

}  // namespace

extern "C" {
int fake_musa_device_count() { return device_count; }
int fake_musa_current_device() { return current_device; }
void fake_musa_set_device(int device) { current_device = existing(device); }
size_t fake_musa_memory_bytes() { return memory_bytes; }
size_t fake_musa_used_bytes(int device) { return used_bytes[device]; }
size_t fake_musa_peak_bytes(int device) { return peak_bytes[device]; }
void fake_musa_reset_peak(int device) { peak_bytes[device] = used_bytes[device].load(); }
int fake_musa_lost(int device) { return lost[device]; }
void fake_musa_seed(int device, uint64_t seed) {
  at::Generator generator =
      at::globalContext().defaultGenerator({kMusa, static_cast<c10::DeviceIndex>(device)});
  generator.set_current_seed(seed);
}
}
