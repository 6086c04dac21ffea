// The faults that tests ask for by environment variables, read when the library is loaded.
//
// A list of operators is `OP[/DTYPE][@DEVICE],...`: `aten::mm.out`, `aten::mm` with any overload,
// `*` for all, `aten::mm.out/bfloat16@1`. Of these lists:
//   FAKE_MUSA_RAISE        fail
//   FAKE_MUSA_MISSING      are not implemented; without a type not even known to the dispatcher
//   FAKE_MUSA_FALLS_BACK   are left to the dispatcher, which computes them on the CPU
//   FAKE_MUSA_COPIES       copy to the CPU by hand, compute there, and copy back
//   FAKE_MUSA_NAN          have a NaN among the numbers of their first result
//   FAKE_MUSA_WRONG        give a first result that is an eighth too large
//   FAKE_MUSA_NUDGE        give one that is off by a part in 2^22
//   FAKE_MUSA_FLAKY        do so in every second call
//   FAKE_MUSA_UNSTABLE     (sorting) turn the order of equal numbers around
//   FAKE_MUSA_BLIND        (unscaling of gradients) do not say that a number was infinite
//   FAKE_MUSA_HANG         never return
//   FAKE_MUSA_CRASH        end the process with SIGSEGV
//   FAKE_MUSA_BUS          end the process with SIGBUS
//   FAKE_MUSA_EXIT         end the process with code 0
//   FAKE_MUSA_OOM          run out of memory
//   FAKE_MUSA_LOST         fail, and so does all that the device is asked for from then on
//   FAKE_MUSA_SLOW         take FAKE_MUSA_SLOW_FACTOR (8) times as long
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kMostDevices = 64;

int number_from(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? std::atoi(value) : otherwise;
}

const char* name_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kFloat: return "float32";
    case c10::kHalf: return "float16";
    case c10::kBFloat16: return "bfloat16";
    case c10::kDouble: return "float64";
    case c10::kLong: return "int64";
    case c10::kInt: return "int32";
    case c10::kChar: return "int8";
    case c10::kByte: return "uint8";
    case c10::kBool: return "bool";
    default: return c10::toString(dtype);
  }
}

// One operator call, as far as a fault may depend on it.
struct Call {
  std::string op;
  c10::ScalarType dtype;
  int device;
};

struct Pattern {
  std::string op, dtype;
  int device = -1;

  bool names(const std::string& other) const {
    return op == "*" || op == other || op == other.substr(0, other.find('.'));
  }
  bool matches(const Call& call) const {
    return names(call.op) && (dtype.empty() || dtype == name_of(call.dtype)) &&
        (device < 0 || device == call.device);
  }
};

struct Fault {
  std::vector<Pattern> patterns;

  explicit Fault(const char* variable) {
    const char* value = std::getenv(variable);
    std::stringstream text(value != nullptr ? value : "");
    for (std::string item; std::getline(text, item, ',');) {
      Pattern pattern;
      if (const auto at = item.find('@'); at != std::string::npos) {
        pattern.device = std::atoi(item.c_str() + at + 1);
        item.resize(at);
      }
      if (const auto slash = item.find('/'); slash != std::string::npos) {
        pattern.dtype = item.substr(slash + 1);
        item.resize(slash);
      }
      pattern.op = item;
      patterns.push_back(pattern);
    }
  }
  bool hits(const Call& call) const {
    for (const auto& pattern : patterns) {
      if (pattern.matches(call)) {
        return true;
      }
    }
    return false;
  }
  // Whatever the type and device.
  bool concerns(const std::string& op) const {
    for (const auto& pattern : patterns) {
      if (pattern.names(op) && pattern.dtype.empty() && pattern.device < 0) {
        return true;
      }
    }
    return false;
  }
};

const Fault raising = [] {
  Fault fault("FAKE_MUSA_RAISE");
  for (auto pattern : Fault("FAKE_MUSA_RAISE_BF16").patterns) {
    pattern.dtype = "bfloat16";
    fault.patterns.push_back(pattern);
  }
  return fault;
}();
const Fault missing("FAKE_MUSA_MISSING"),
    falling_back("FAKE_MUSA_FALLS_BACK"), copying("FAKE_MUSA_COPIES"), nan_giving("FAKE_MUSA_NAN"),
    wrong("FAKE_MUSA_WRONG"), nudged("FAKE_MUSA_NUDGE"), flaky("FAKE_MUSA_FLAKY"),
    unstable("FAKE_MUSA_UNSTABLE"), blind("FAKE_MUSA_BLIND"), hanging("FAKE_MUSA_HANG"),
    crashing("FAKE_MUSA_CRASH"), bus("FAKE_MUSA_BUS"), leaving("FAKE_MUSA_EXIT"),
    without_memory("FAKE_MUSA_OOM"), losing("FAKE_MUSA_LOST"), slow("FAKE_MUSA_SLOW");
const int slow_factor = number_from("FAKE_MUSA_SLOW_FACTOR", 8);
std::atomic<bool> lost[kMostDevices];

void see_that_it_lives(int device) {
  TORCH_CHECK(!lost[device], "MUSA error: unspecified launch failure");
}

// What happens before an operator does its work.
void trouble(const Call& call) {
  see_that_it_lives(call.device);
  TORCH_CHECK(
      !raising.hits(call), "MUSA error: the kernel of ", call.op, " failed on ",
      name_of(call.dtype));
  TORCH_CHECK_NOT_IMPLEMENTED(
      !missing.hits(call), "\"", call.op, "\" not implemented for '", c10::toString(call.dtype), "'");
  TORCH_CHECK_WITH(
      OutOfMemoryError, !without_memory.hits(call), "MUSA out of memory in ", call.op);
  if (losing.hits(call)) {
    lost[call.device] = true;
    see_that_it_lives(call.device);
  }
  if (crashing.hits(call)) {
    std::raise(SIGSEGV);
  }
  if (bus.hits(call)) {
    std::raise(SIGBUS);
  }
  if (leaving.hits(call)) {
    ::_exit(0);
  }
  while (hanging.hits(call)) {
    ::pause();
  }
}

// Makes whatever happens while it lives take longer.
class Slowed {
 public:
  explicit Slowed(const Call& call) : hit_(slow.hits(call)), begun_(Clock::now()) {}
  ~Slowed() {
    if (hit_) {
      std::this_thread::sleep_for((slow_factor - 1) * (Clock::now() - begun_));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool hit_;
  Clock::time_point begun_;
};

}  // namespace
