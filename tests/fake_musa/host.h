// Memory of the stand-in device, and its operators, computed on the host on that very memory.
//
// Nothing is copied to the CPU and no nested operator is recorded, so that a profiler sees what it
// sees of a real device.
#pragma once

#include "faults.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <fcntl.h>
#include <sys/mman.h>

#include <set>

namespace {

using at::Tensor;
constexpr auto kMusa = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

const int device_count = [] {
  const char* later = std::getenv("FAKE_MUSA_DEVICES_LATER");
  const char* state = std::getenv("FAKE_MUSA_STATE");
  int count = number_from("FAKE_MUSA_DEVICES", 2);
  if (later != nullptr && state != nullptr) {
    const int file = ::open(state, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    count = file < 0 ? std::atoi(later) : count;
    if (file >= 0) {
      ::close(file);
    }
  }
  return std::min(count, kMostDevices);
}();

thread_local c10::DeviceIndex current_device = 0;

c10::DeviceIndex existing(c10::DeviceIndex index) {
  TORCH_CHECK(index < device_count, "MUSA error: invalid device ordinal");
  return index < 0 ? current_device : index;
}

// ---- memory ----------------------------------------------------------------------------------

const size_t memory_bytes = static_cast<size_t>(number_from("FAKE_MUSA_MEMORY_MIB", 1024)) << 20;
const size_t room_bytes =
    std::min(memory_bytes, static_cast<size_t>(number_from("FAKE_MUSA_ROOM_MIB", 1 << 30)) << 20);
const size_t leak_bytes = static_cast<size_t>(number_from("FAKE_MUSA_LEAK_MIB", 1 << 30)) << 20;
constexpr size_t kMapped = 64 << 20;
std::atomic<size_t> used_bytes[kMostDevices];
std::atomic<size_t> peak_bytes[kMostDevices];

void take(c10::DeviceIndex device, size_t bytes) {
  see_that_it_lives(device);
  const size_t now = used_bytes[device].fetch_add(bytes) + bytes;
  if (now > room_bytes) {
    used_bytes[device] -= bytes;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "MUSA out of memory: ", bytes, " bytes");
  }
  size_t peak = peak_bytes[device];
  while (now > peak && !peak_bytes[device].compare_exchange_weak(peak, now)) {
  }
}

void give_back(c10::DeviceIndex device, size_t bytes) {
  if (bytes < leak_bytes) {
    used_bytes[device] -= bytes;
  }
}

struct Block {
  void* data;
  size_t bytes;
  c10::DeviceIndex device;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  give_back(block->device, block->bytes);
  if (block->bytes >= kMapped) {
    ::munmap(block->data, block->bytes);
  } else {
    std::free(block->data);
  }
  delete block;
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = current_device;
    take(device, bytes);
    void* data = nullptr;
    if (bytes >= kMapped) {
      // More than the host has may be asked for, and is there until it is written to.
      data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      TORCH_CHECK_WITH(OutOfMemoryError, data != MAP_FAILED, "the host is out of memory");
    } else if (bytes != 0 && posix_memalign(&data, 64, bytes) != 0) {
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

// ---- the same memory on both sides -----------------------------------------------------------

// Operators within it are the host's own and nobody's business.
struct HostScope {
  at::AutoDispatchBelowADInplaceOrView below;
  at::RecordFunctionGuard unrecorded{false};
};

Tensor on_host(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) {
    return tensor;
  }
  const auto options = at::TensorOptions(tensor.scalar_type()).device(at::kCPU);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

struct Lent {
  Tensor host;
  size_t bytes;
  c10::DeviceIndex device;
};

void end_of_loan(void* context) {
  auto* lent = static_cast<Lent*>(context);
  give_back(lent->device, lent->bytes);
  delete lent;
}

// A tensor of the host as one of the device, which owns its memory from now on.
Tensor on_device(const Tensor& tensor, c10::Device device) {
  const size_t bytes = tensor.storage().nbytes();
  take(device.index(), bytes);
  auto* data = const_cast<void*>(tensor.storage().data());
  c10::DataPtr pointer(data, new Lent{tensor, bytes, device.index()}, &end_of_loan, device);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(pointer), &allocator, true);
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), kKeys, tensor.dtype());
  auto* inside = made.unsafeGetTensorImpl();
  inside->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return made;
}

// ---- faults of results -----------------------------------------------------------------------

void spoil(const Call& call, Tensor& result) {
  static std::atomic<int> calls{0};
  if (!result.defined() || result.numel() == 0) {
    return;
  }
  const bool floating = at::isFloatingType(result.scalar_type());
  if (wrong.hits(call)) {
    floating ? result.mul_(1.125) : result.bitwise_xor_(1);
  }
  const bool off = nudged.hits(call) || (flaky.hits(call) && ++calls % 2 == 0);
  if (off && floating) {
    result.mul_(1 + 0x1p-22);
  }
  if (nan_giving.hits(call) && floating) {
    result.select(0, result.dim() == 0 ? 0 : result.size(0) / 2).fill_(NAN);
  }
}

// ---- any operator that the CPU has -----------------------------------------------------------

struct Pair {
  Tensor device, host;
  bool written;
};

class Arguments {
 public:
  c10::Device device{kMusa, current_device};
  c10::ScalarType dtype = at::kFloat;
  std::vector<Pair> pairs;

  Tensor lend(const Tensor& tensor, bool written, bool shrinks = false) {
    if (!tensor.defined() || tensor.is_cpu()) {
      return tensor;
    }
    if (pairs.empty()) {
      device = tensor.device();
      dtype = tensor.scalar_type();
    }
    // What is empty or shrinks is resized, which borrowed memory cannot be.
    const bool fresh = written && (shrinks || tensor.numel() == 0);
    auto host = fresh ? at::empty({0}, at::TensorOptions(tensor.scalar_type())) : on_host(tensor);
    pairs.push_back({tensor, host, written});
    return host;
  }

  Tensor back(const Tensor& tensor) const {
    if (!tensor.defined()) {
      return tensor;
    }
    for (const auto& pair : pairs) {
      if (tensor.is_same(pair.host)) {
        return pair.device;
      }
    }
    for (const auto& pair : pairs) {
      if (tensor.is_alias_of(pair.host)) {
        return at::native::as_strided_tensorimpl(
            pair.device, tensor.sizes(), tensor.strides(),
            pair.device.storage_offset() + tensor.storage_offset());
      }
    }
    return on_device(tensor, device);
  }

  void write_back() const {
    for (const auto& pair : pairs) {
      if (pair.written && pair.device.data_ptr() != pair.host.data_ptr()) {
        pair.device.resize_(pair.host.sizes());
        on_host(pair.device).copy_(pair.host);
      }
    }
  }
};

// The device's generators are the host's with another name.
class Randomness {
 public:
  void lend(c10::IValue& value, c10::Device device) {
    const auto& hooks = at::globalContext().getAcceleratorHooksInterface(kMusa);
    own_ = value.isNone() ? hooks.getDefaultGenerator(device.index()) : value.toGenerator();
    if (own_.device().type() != kMusa) {
      return;
    }
    host_ = at::detail::createCPUGenerator();
    host_.set_state(own_.get_state());
    value = host_;
  }
  void back() {
    if (host_.defined()) {
      own_.set_state(host_.get_state());
    }
  }

 private:
  at::Generator own_, host_;
};

template <typename List>
void lend_list(const List& list, c10::IValue& value, Arguments& arguments, bool written) {
  auto lent = list.copy();
  for (size_t i = 0; i < lent.size(); ++i) {
    if constexpr (std::is_same_v<List, c10::List<Tensor>>) {
      lent.set(i, arguments.lend(lent.get(i), written));
    } else if (const std::optional<Tensor> one = lent.get(i); one.has_value()) {
      lent.set(i, std::optional<Tensor>(arguments.lend(*one, written)));
    }
  }
  value = lent;
}

void lend_all(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> given,
              std::vector<c10::IValue>& lent, Arguments& arguments, Randomness& randomness) {
  for (size_t i = 0; i < given.size(); ++i) {
    auto value = given[i];
    const auto* alias = schema.arguments()[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    if (value.isTensor()) {
      // A loss has the size of its input before it is reduced.
      const bool out = schema.arguments()[i].is_out();
      const bool loss = out && schema.name().find("_loss") != std::string::npos;
      value = arguments.lend(value.toTensor(), written, loss);
    } else if (value.isTensorList()) {
      lend_list(value.toTensorList(), value, arguments, written);
    } else if (value.isOptionalTensorList()) {
      lend_list(value.toOptionalTensorList(), value, arguments, written);
    } else if (value.isDevice()) {
      arguments.device = value.toDevice();
      value = c10::Device(at::kCPU);
    }
    lent.push_back(std::move(value));
  }
  static const auto generator = c10::OptionalType::create(c10::GeneratorType::get());
  for (size_t i = 0; i < given.size(); ++i) {
    if (schema.arguments()[i].type()->isSubtypeOf(*generator)) {
      randomness.lend(lent[i], arguments.device);
    }
  }
}

// Turns the order of equal numbers around: sorts the row the other way around.
void sort_unstably(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t first) {
  const auto& arguments = op.schema().arguments();
  size_t dim_at = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    dim_at = arguments[i].name() == "dim" ? i : dim_at;
  }
  const int64_t dim = stack[first + dim_at].toInt();
  const auto table = stack[first].toTensor();
  stack[first] = at::flip(table, {dim});
  op.callBoxed(&stack);
  auto places = stack.back().toTensor();
  places.neg_().add_(table.size(dim) - 1);
}

void compute(const c10::OperatorHandle& op, torch::jit::Stack& stack, const Call& call) {
  const size_t first = stack.size() - op.schema().arguments().size();
  if (unstable.hits(call)) {
    sort_unstably(op, stack, first);
  } else {
    op.callBoxed(&stack);
  }
}

// By hand, as some kernels do: the copies are operators like any other.
void compute_by_copies(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                       c10::Device device) {
  const size_t count = op.schema().arguments().size();
  const size_t first = stack->size() - count;
  std::vector<std::pair<Tensor, Tensor>> written;
  for (size_t i = 0; i < count; ++i) {
    auto& value = (*stack)[first + i];
    if (value.isTensor() && value.toTensor().defined()) {
      const auto own = value.toTensor();
      const auto* alias = op.schema().arguments()[i].alias_info();
      const auto copy = own.to(at::kCPU);
      if (alias != nullptr && alias->isWrite()) {
        written.emplace_back(own, copy);
      }
      value = copy;
    }
  }
  op.callBoxed(stack);
  for (auto& [own, copy] : written) {
    own.resize_(copy.sizes());
    own.copy_(copy);
  }
  const size_t results = op.schema().returns().size();
  for (size_t i = stack->size() - results; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    if (!value.isTensor() || !value.toTensor().defined()) {
      continue;
    }
    const auto result = value.toTensor();
    value = result.to(device);
    for (auto& [own, copy] : written) {
      if (result.is_same(copy)) {
        value = own;
      }
    }
  }
}

void compute_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto given = torch::jit::last(*stack, schema.arguments().size());
  Arguments arguments;
  Randomness randomness;
  std::vector<c10::IValue> lent;
  const auto name = c10::toString(op.operator_name());
  {
    const HostScope scope;
    lend_all(schema, given, lent, arguments, randomness);
  }
  const Call call{name, arguments.dtype, existing(arguments.device.index())};
  const c10::DeviceGuard guard(c10::Device(kMusa, static_cast<c10::DeviceIndex>(call.device)));
  trouble(call);
  if (copying.hits(call)) {
    compute_by_copies(op, stack, arguments.device);
    return;
  }
  const Slowed slowed(call);
  const HostScope scope;
  compute(op, lent, call);
  randomness.back();
  if (blind.hits(call)) {
    arguments.pairs.end()[-2].host.zero_();  // of the gradients, what was found, the scale
  }
  torch::jit::drop(*stack, schema.arguments().size());
  if (!lent.empty() && lent.front().isTensor()) {
    auto result = lent.front().toTensor();
    spoil(call, result);
  }
  arguments.write_back();
  for (auto& value : lent) {
    if (value.isTensor()) {
      value = arguments.back(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorList().copy();
      for (size_t i = 0; i < list.size(); ++i) {
        list.set(i, arguments.back(list.get(i)));
      }
      value = list;
    }
    stack->push_back(std::move(value));
  }
}

}  // namespace
