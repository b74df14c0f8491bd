// SPDX-License-Identifier: Apache-2.0
// Kernels have two halves. prepare() sees parameters, shapes, dtypes, layouts, device and team,
// makes library objects and states scratch and layouts, or declines with a reason. run() only
// computes: it allocates nothing, creates nothing, waits for no device and keeps no state, so one
// prepared kernel may run on every lane of the same team size at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/device.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/slot_store.h"
#include "base/status.h"
#include "base/stream.h"
#include "base/tensor_view.h"
#include "ops/params.h"

namespace troupe::ops {

struct OpDef;

/// What a kernel does with an output's old content.
enum class WriteMode : std::uint8_t { write, add };

/// One input or output of a call being prepared.
struct TensorDesc {
  base::DType dtype = base::DType::f32;
  base::Shape shape;
  base::Layout layout;
  /// True: the kernel may choose; Kernel::input_layouts/output_layouts then say what it chose.
  bool any_layout = false;
  friend bool operator==(const TensorDesc&, const TensorDesc&) = default;
};

/// Everything a kernel is prepared from; also the key of the cache of prepared kernels.
struct OpCall {
  const OpDef* op = nullptr;
  Params params;
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
  std::vector<WriteMode> modes;  ///< one per output; empty: all write
  base::Device device;
  int team = 1;
  bool reference_only = false;  ///< take the reference kernel whatever else is there
  bool winograd = true;         ///< Winograd's form may be taken: faster, and a bit less precise
  bool tf32 = false;            ///< GPUs: f32 products may take factors that are rounded to TF32
  friend bool operator==(const OpCall&, const OpCall&) = default;
  std::size_t hash() const;  ///< equal calls have equal ones
};

/// What a running kernel gets. Views match the prepared layouts; addresses change from run to run.
struct KernelContext {
  std::span<const base::TensorView> inputs;
  std::span<const base::TensorView> outputs;
  std::span<std::byte> scratch;  ///< scratch_bytes() bytes, aligned to 64, content unspecified
  base::RandomKey random_key;    ///< of the node; operators marked `random` only
  std::int64_t random_step = 0;
  int team = 1;  ///< threads that it may use, at most those that the lane's thread leads
  base::SlotStore* slots = nullptr;
  base::Stream* stream = nullptr;

  /// f(chunk) for chunk in [0, chunks) on this lane's team. Results must follow from shapes alone,
  /// and so must chunks where sums are cut by them.
  void parallel(std::int64_t chunks, base::FunctionRef<void(std::int64_t)> f) const {
    base::parallel_chunks(team, chunks, f);
  }
  template <typename T>
  T& slot() const {
    return slots->get<T>();
  }
};

/// A prepared kernel. Immutable; shared by executors and lanes.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual base::Status run(const KernelContext& context) const = 0;
  /// "reference", "onednn:jit_avx512_core", "simd".
  virtual std::string name() const = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Layouts it takes and gives, one per input and output; empty: all dense.
  virtual std::vector<base::Layout> input_layouts() const { return {}; }
  virtual std::vector<base::Layout> output_layouts() const { return {}; }
  /// True: where samples stay apart (OpDef::keeps_samples), each has the bits that it has among any
  /// number of others. False: only nearly.
  virtual bool keeps_sample_bits() const { return true; }
  /// True: it is prepared for a team of one, whatever the call says, since what it does takes less
  /// time than a team to come together. It should run so, too.
  bool runs_alone() const { return runs_alone_; }
  /// True: by its rule a run takes less time than to hand it to another thread.
  bool brief() const { return brief_; }
  /// True: it refuses tensors that do not begin at multiples of kWideLoadBytes
  /// (support/wide_loads.h).
  bool loads_wide() const { return loads_wide_; }
  /// KernelContext::team for a run by a thread that leads `team`.
  int threads(int team) const { return runs_alone_ ? 1 : team; }

 private:
  friend struct KernelDef;
  bool runs_alone_ = false, brief_ = false, loads_wide_ = false;
};

/// For KernelDef::takes_16_bits.
inline bool any_16_bits(const OpCall&) {
  return true;
}
/// The same: calls without tensors of f16.
bool only_bf16(const OpCall& call);

using PrepareFunction = std::function<base::Result<std::unique_ptr<Kernel>>(const OpCall&)>;
/// Seconds that a call takes by a rule (roofline.h): from the call alone, and nothing measured, so
/// that every worker and every resume chooses alike.
using SecondsFunction = std::function<double(const OpCall&)>;

/// A candidate for an operator's calls. Declining is Errc::unimplemented with the reason.
struct KernelDef {
  std::string name;  ///< "reference", "blocked", "simd", "onednn", "cuda"
  PrepareFunction make;
  SecondsFunction seconds = {};  ///< empty: roofline_seconds() of a fast kernel
  /// Says of a call with tensors of f16 or bf16 whether `make` and `seconds` know these. Otherwise,
  /// and where null, they see the call in which these are f32, and what is made converts around
  /// each run (support/widened.h).
  bool (*takes_16_bits)(const OpCall& call) = nullptr;
  bool on_gpus = false;     ///< for calls on GPUs; else for all others
  bool loads_wide = false;  ///< see Kernel::loads_wide()
  /// Its rule cannot tell it from the one before it: it is asked where kernels are measured, or
  /// where it has been chosen by name.
  bool by_choice = false;
  /// What it makes may be made for a team, which the thread that runs it must lead: it runs in no
  /// parallel region, and for a team of one only where base::teams_stay().
  bool leads_team = false;

  /// True where `make` and `seconds` see a call in which tensors of 16 bits are f32.
  bool widens(const OpCall& call) const;
  double rule_seconds(const OpCall& call) const;
  /// What `make` makes, around which tensors of 16 bits are converted unless it takes them.
  base::Result<std::unique_ptr<Kernel>> make_kernel(const OpCall& call) const;
  /// The same, for the call's team or for one thread alone.
  base::Result<std::unique_ptr<Kernel>> prepare(const OpCall& call) const;
};

/// A reference kernel from a plain function: dense layouts, no scratch (or `scratch(call)` bytes).
KernelDef reference_kernel(std::function<base::Status(const OpCall&, const KernelContext&)> run,
                           std::function<std::size_t(const OpCall&)> scratch = {});

/// A candidate that did not take a call.
struct Decline {
  std::string kernel;  ///< KernelDef::name
  std::string reason;
};

/// What a candidate would do with a call.
struct Offer {
  const KernelDef* maker = nullptr;           ///< its prepare() makes the kernel of the same call
  std::string kernel;                         ///< Kernel::name()
  std::vector<base::Layout> inputs, outputs;  ///< one each
  std::size_t scratch_bytes = 0;
  double seconds = 0;  ///< by the candidate's rule
};

/// Which of an operator's candidates are asked: by default all but those of KernelDef::by_choice.
struct Candidates {
  bool by_choice = false;       ///< those, too
  std::string_view named = {};  ///< none but the one of this name; empty: whatever their names
};

/// All offers of candidates for the call's device, least seconds first, then in the operator's
/// order; an error says why there is none. failed_precondition where a candidate makes its objects
/// for a team and the calling thread is in a parallel region. `declines`, if given, gets those that
/// declined.
base::Result<std::vector<Offer>> offers(const OpCall& call,
                                        std::vector<Decline>* declines = nullptr,
                                        const Candidates& asked = {});
/// The kernel of the first of offers(). Candidates behind it are not asked.
base::Result<std::unique_ptr<Kernel>> prepare(const OpCall& call);

/// f(T{}) with T = float or double by dtype; an error names any other dtype.
template <typename F>
base::Status with_floating(base::DType dtype, F&& f) {
  switch (dtype) {
    case base::DType::f32:
      return f(float{});
    case base::DType::f64:
      return f(double{});
    default:
      return base::error(base::Errc::unimplemented, "no kernel for dtype {}",
                         base::dtype_name(dtype));
  }
}

/// The same, or T = base::F16 or base::BF16.
template <typename F>
base::Status with_real(base::DType dtype, F&& f) {
  switch (dtype) {
    case base::DType::f16:
      return f(base::F16{});
    case base::DType::bf16:
      return f(base::BF16{});
    default:
      return with_floating(dtype, f);
  }
}

/// What elements of T are computed in: float for those of 16 bits.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == sizeof(base::F16), float, T>;

/// f(T{}) for kernels that move elements and compute nothing: T is a type of that size.
template <typename F>
base::Status with_moved(base::DType dtype, F&& f) {
  switch (base::dtype_size(dtype)) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}
/// `kernel`, whose run moves elements of any type.
inline KernelDef moving_kernel(KernelDef kernel) {
  kernel.takes_16_bits = any_16_bits;
  return kernel;
}

/// A reference kernel from f(call, context, T{}) with T = float or double, the dtype of the call's
/// first input; `scratch` gives the bytes that it needs, if any.
template <typename F>
KernelDef floating_kernel(F f, std::function<std::size_t(const OpCall&)> scratch = {}) {
  return reference_kernel(
      [f](const OpCall& call, const KernelContext& context) {
        return with_floating(call.inputs[0].dtype,
                             [&](auto zero) -> base::Status { return f(call, context, zero); });
      },
      std::move(scratch));
}

}  // namespace troupe::ops
