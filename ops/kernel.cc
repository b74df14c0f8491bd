// SPDX-License-Identifier: Apache-2.0
// Choosing a kernel, and the frame of every reference kernel: it takes care of add mode and of
// blocked buffers, so that the plain functions inside only ever write dense tensors.
#include "ops/kernel.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/mix_hash.h"
#include "ops/op.h"
#include "ops/roofline.h"
#include "ops/support/chunks.h"
#include "ops/support/flat_kernel.h"
#include "ops/support/scratch_views.h"
#include "ops/support/widened.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Shape;
using base::Status;
using base::TensorView;

class ReferenceKernel final : public Kernel {
 public:
  using Run = std::function<Status(const OpCall&, const KernelContext&)>;

  /// `flat` is the common blocked layout that the call runs flat over; dense: none.
  ReferenceKernel(OpCall call, Layout flat, Run run, std::size_t inner_scratch)
      : call_(std::move(call)),
        flat_(std::move(flat)),
        run_(std::move(run)),
        inner_scratch_(scratch_piece(static_cast<std::int64_t>(inner_scratch))),
        scratch_bytes_(inner_scratch_) {
    if (!flat_.is_dense()) flat_shape_ = Shape{flat_.padded.elements()};
    for (auto* group : {&call_.inputs, &call_.outputs}) {
      for (TensorDesc& desc : *group) {
        desc.layout = Layout::dense();
        if (!flat_.is_dense()) desc.shape = flat_shape_;
      }
    }
    adds_ = std::find(call_.modes.begin(), call_.modes.end(), WriteMode::add) != call_.modes.end();
    for (std::size_t i = 0; i < call_.modes.size(); ++i) {
      if (call_.modes[i] == WriteMode::add) scratch_bytes_ += output_bytes(i);
    }
    std::size_t views = adds_ ? call_.outputs.size() : 0;
    if (!flat_.is_dense()) views += call_.inputs.size() + call_.outputs.size();
    views_offset_ = scratch_bytes_;
    scratch_bytes_ += scratch_piece(static_cast<std::int64_t>(views * sizeof(TensorView)));
  }

  std::string name() const override { return "reference"; }
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::vector<Layout> input_layouts() const override { return layouts(call_.inputs.size()); }
  std::vector<Layout> output_layouts() const override { return layouts(call_.outputs.size()); }

  Status run(const KernelContext& context) const override {
    return adds_ || !flat_.is_dense() ? run_rewritten(context) : run_(call_, context);
  }

 private:
  std::vector<Layout> layouts(std::size_t count) const {
    return flat_.is_dense() ? std::vector<Layout>() : std::vector<Layout>(count, flat_);
  }
  std::size_t output_bytes(std::size_t i) const {
    const TensorDesc& output = call_.outputs[i];
    return scratch_piece(
        Layout::dense().buffer_bytes(output.shape, base::dtype_size(output.dtype)));
  }

  /// Runs on flat views and on temporaries for the outputs that are added to.
  Status run_rewritten(const KernelContext& context) const {
    ScratchViews views(context.scratch.data() + views_offset_);
    KernelContext inner = context;
    inner.scratch = context.scratch.first(inner_scratch_);
    if (!flat_.is_dense()) {
      // Not a copy: the layout of a view is memory, which run() must not take.
      const auto flatten = [this](std::size_t, const TensorView& view) {
        return TensorView{view.data, view.dtype, flat_shape_, {}, view.device};
      };
      inner.inputs = views.add(context.inputs, flatten);
      inner.outputs = views.add(context.outputs, flatten);
    }
    if (!adds_) return run_(call_, inner);
    const std::span<const TensorView> targets = inner.outputs;
    std::byte* free = context.scratch.data() + inner_scratch_;
    inner.outputs = views.add(targets, [&](std::size_t i, TensorView view) {
      if (call_.modes[i] == WriteMode::add) {
        view.data = free;
        free += output_bytes(i);
      }
      return view;
    });
    TROUPE_TRY(run_(call_, inner));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (call_.modes[i] != WriteMode::add) continue;
      TROUPE_TRY(add_memory(context, inner.outputs[i], targets[i]));
    }
    return {};
  }

  OpCall call_;
  Layout flat_;
  Shape flat_shape_;
  Run run_;
  std::size_t inner_scratch_;
  std::size_t scratch_bytes_;
  std::size_t views_offset_ = 0;
  bool adds_ = false;
};

void mix(std::size_t& hash, const std::vector<TensorDesc>& tensors) {
  for (const TensorDesc& tensor : tensors) {
    base::mix_hash(hash, static_cast<std::uint64_t>(tensor.dtype));
    base::mix_hash(
        hash, static_cast<std::uint64_t>(tensor.layout.kind) * 2 + (tensor.any_layout ? 1 : 0));
    for (const std::int64_t extent : tensor.shape.dims()) {
      base::mix_hash(hash, static_cast<std::uint64_t>(extent));
    }
  }
}

Status check_modes(const OpCall& call) {
  for (std::size_t i = 0; i < call.modes.size(); ++i) {
    const auto& allowed = call.op->accumulates;
    if (call.modes[i] == WriteMode::write) continue;
    if (std::find(allowed.begin(), allowed.end(), static_cast<int>(i)) == allowed.end()) {
      return base::error(Errc::invalid_argument, "[{}] output {} cannot be added to", call.op->name,
                         i);
    }
  }
  return {};
}

}  // namespace

std::size_t OpCall::hash() const {
  std::size_t hash = std::hash<const void*>{}(op);
  base::mix_hash(hash, params.hash());
  mix(hash, inputs);
  mix(hash, outputs);
  for (const WriteMode mode : modes) base::mix_hash(hash, static_cast<std::uint64_t>(mode));
  base::mix_hash(hash, static_cast<std::uint64_t>(device.kind));
  base::mix_hash(hash, static_cast<std::uint64_t>(team) * 8 + (tf32 ? 4 : 0) +
                           (reference_only ? 2 : 0) + (winograd ? 1 : 0));
  return hash;
}

KernelDef reference_kernel(std::function<Status(const OpCall&, const KernelContext&)> run,
                           std::function<std::size_t(const OpCall&)> scratch) {
  const auto make = [run = std::move(run), scratch = std::move(scratch)](
                        const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    TROUPE_TRY_ASSIGN(Layout layout, common_layout(call));
    const std::size_t bytes = scratch ? scratch(call) : 0;
    return std::unique_ptr<Kernel>(
        std::make_unique<ReferenceKernel>(call, std::move(layout), run, bytes));
  };
  const auto seconds = [](const OpCall& call) {
    constexpr Speed kPlainLoops{0.02, 0.25};
    return roofline_seconds(call, kPlainLoops);
  };
  return {"reference", make, seconds};
}

namespace {

bool has_empty(const OpCall& call) {
  const auto empty = [](const TensorDesc& tensor) { return tensor.shape.elements() == 0; };
  return std::any_of(call.inputs.begin(), call.inputs.end(), empty) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), empty);
}

}  // namespace

bool only_bf16(const OpCall& call) {
  return !has_dtype(call, base::DType::f16);
}

bool KernelDef::widens(const OpCall& call) const {
  return has_16_bits(call) && (takes_16_bits == nullptr || !takes_16_bits(call));
}

double KernelDef::rule_seconds(const OpCall& call) const {
  if (widens(call)) {
    return rule_seconds(widened_call(call)) + widening_seconds(call);
  }
  const bool ruled = seconds && !has_empty(call);  // rules divide by extents
  return ruled ? seconds(call) : roofline_seconds(call);
}

Result<std::unique_ptr<Kernel>> KernelDef::make_kernel(const OpCall& call) const {
  return widens(call) ? make_widened(call, make) : make(call);
}

Result<std::unique_ptr<Kernel>> KernelDef::prepare(const OpCall& call) const {
  const bool same_team = leads_team && !base::teams_stay();
  const bool alone =
      !on_gpus && call.team > 1 && !same_team && is_quicker_alone(call, rule_seconds(call));
  OpCall of_one;
  if (alone) {
    of_one = call;
    of_one.team = 1;
  }
  const OpCall& chosen = alone ? of_one : call;
  TROUPE_TRY_ASSIGN(std::unique_ptr<Kernel> kernel, make_kernel(chosen));
  kernel->runs_alone_ = alone;
  kernel->brief_ = !on_gpus && chosen.team == 1 && rule_seconds(chosen) < kBriefSeconds;
  kernel->loads_wide_ = loads_wide;
  return kernel;
}

namespace {

Status check(const OpCall& call) {
  TROUPE_CHECK(call.op != nullptr && !call.op->kernels.empty(), "call without operator or kernels");
  TROUPE_CHECK(call.inputs.size() == call.op->inputs(call.params).size() &&
                   call.outputs.size() == call.op->outputs(call.params).size(),
               "[" + call.op->name + "] call with another number of inputs or outputs");
  TROUPE_CHECK(call.modes.empty() || call.modes.size() == call.outputs.size(),
               "[" + call.op->name + "] call with another number of write modes");
  return check_modes(call);
}

struct Candidate {
  const KernelDef* kernel;
  double seconds;
};

/// Least seconds first.
std::vector<Candidate> candidates(const OpCall& call, const Candidates& asked) {
  std::vector<Candidate> list;
  for (const KernelDef& kernel : call.op->kernels) {
    if (call.reference_only && kernel.name != "reference") continue;
    if (kernel.on_gpus != (call.device.kind == base::DeviceKind::cuda)) continue;
    if (asked.named.empty() ? kernel.by_choice && !asked.by_choice : kernel.name != asked.named) {
      continue;
    }
    list.push_back({&kernel, kernel.rule_seconds(call)});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return list;
}

/// Calls f(candidate, its kernel), which says whether to go on, until the end of the list.
template <typename F>
Status ask(const OpCall& call, const Candidates& asked, std::vector<Decline>& declines, F&& f) {
  TROUPE_TRY(check(call));
  for (const Candidate& candidate : candidates(call, asked)) {
    auto kernel = candidate.kernel->prepare(call);
    if (kernel.ok()) {
      if (!f(candidate, *std::move(kernel))) break;
    } else if (kernel.status().code() == Errc::unimplemented ||
               (candidate.kernel->by_choice && asked.named.empty())) {
      declines.push_back({candidate.kernel->name, kernel.status().text()});
    } else {
      return kernel.status().with_context(
          fmt::format("[{}] {}", call.op->name, candidate.kernel->name));
    }
  }
  return {};
}

Status none(const OpCall& call, const std::vector<Decline>& declines) {
  std::string reasons;
  for (const Decline& decline : declines) {
    reasons += fmt::format("; {}: {}", decline.kernel, decline.reason);
  }
  return base::error(Errc::unimplemented, "[{}] no kernel takes this call on {}{}", call.op->name,
                     call.device.to_string(), reasons);
}

/// What a kernel says, with "empty: all dense" written out.
std::vector<Layout> stated(std::vector<Layout> layouts, std::size_t count) {
  if (layouts.empty()) layouts.resize(count);
  TROUPE_CHECK(layouts.size() == count, "a kernel must state one layout per input and output");
  return layouts;
}

}  // namespace

Result<std::vector<Offer>> offers(const OpCall& call, std::vector<Decline>* declines,
                                  const Candidates& asked) {
  std::vector<Offer> list;
  std::vector<Decline> declined;
  TROUPE_TRY(
      ask(call, asked, declined, [&](const Candidate& candidate, std::unique_ptr<Kernel> kernel) {
        list.push_back({candidate.kernel, kernel->name(),
                        stated(kernel->input_layouts(), call.inputs.size()),
                        stated(kernel->output_layouts(), call.outputs.size()),
                        kernel->scratch_bytes(), candidate.seconds});
        return true;
      }));
  const Status status = list.empty() ? none(call, declined) : Status();
  if (declines != nullptr) *declines = std::move(declined);
  if (!status.ok()) return status;
  return list;
}

Result<std::unique_ptr<Kernel>> prepare(const OpCall& call) {
  std::unique_ptr<Kernel> made;
  std::vector<Decline> declined;
  TROUPE_TRY(ask(call, {}, declined, [&](const Candidate&, std::unique_ptr<Kernel> kernel) {
    made = std::move(kernel);
    return false;
  }));
  if (made == nullptr) return none(call, declined);
  return made;
}

}  // namespace troupe::ops
