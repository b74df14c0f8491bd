// SPDX-License-Identifier: Apache-2.0
// Each step's kernel is prepared for a dense row of elements: a block of them and, for the last
// block, what is left.
#include "ops/support/chain_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/pointwise_chain.h"
#include "ops/roofline.h"
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Shape;
using base::Status;
using base::TensorView;

/// Bytes of a block that one thread takes through all steps: a few of them fit the second cache,
/// and what a kernel's call costs is little beside them.
constexpr std::int64_t kBlockBytes = 32768;
/// Bytes, for each thread, of a block that a team takes through all steps: to come together costs
/// microseconds for each.
constexpr std::int64_t kTeamBlockBytes = 131072;

/// Where a step's result lies: a place in scratch, or the call's output.
constexpr std::size_t kOutput = static_cast<std::size_t>(-1);

struct PlannedStep {
  PointwiseStep step;
  const KernelDef* maker = nullptr;
  std::shared_ptr<const Kernel> whole = {};  ///< for a block
  std::shared_ptr<const Kernel> rest = {};   ///< for the last one's elements
  std::size_t place = kOutput;

  /// One of the two; null for empty tensors.
  const Kernel* kernel() const { return whole ? whole.get() : rest.get(); }
};

/// Steps with a copy in front of what the last one may not find overwritten: where an input and the
/// output are one memory, kernels need only bear what their operator's in-place pairs say.
PointwiseChain guarded(PointwiseChain chain) {
  PointwiseStep last = std::move(chain.steps.back());
  chain.steps.pop_back();
  for (std::size_t k = 0; k < last.operands.size(); ++k) {
    const auto& pairs = last.op->in_place;
    const bool borne =
        std::find(pairs.begin(), pairs.end(), std::pair(static_cast<int>(k), 0)) != pairs.end();
    if (borne || last.operands[k] >= chain.inputs) continue;
    const OpDef& copy = OpTable::build().at("copy");
    chain.steps.push_back({&copy, parse_params(copy, {}).value(), {last.operands[k]}});
    last.operands[k] = chain.inputs + chain.steps.size() - 1;
  }
  chain.steps.push_back(std::move(last));
  return chain;
}

/// Steps in f32 between casts from `narrow` and to it.
PointwiseChain widened(PointwiseChain chain, base::DType narrow) {
  const OpDef& cast = OpTable::build().at("cast");
  const auto cast_to = [&cast](base::DType dtype, std::size_t operand) {
    const Attributes attributes = {{"dtype", std::string(base::dtype_name(dtype))}};
    return PointwiseStep{&cast, parse_params(cast, attributes).value(), {operand}};
  };
  PointwiseChain result{chain.inputs, {}, chain.numbers};
  for (std::size_t i = 0; i < chain.inputs; ++i) {
    result.steps.push_back(cast_to(base::DType::f32, i));
  }
  for (PointwiseStep& step : chain.steps) {
    for (std::size_t& operand : step.operands) operand += chain.inputs;
    result.steps.push_back(std::move(step));
  }
  result.steps.push_back(cast_to(narrow, chain.inputs + result.steps.size() - 1));
  return result;
}

/// Gives every result but the last a place, which is free again behind its last reader.
std::size_t plan_places(std::size_t inputs, std::vector<PlannedStep>& steps) {
  std::vector<std::size_t> last_use(steps.size(), 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const std::size_t operand : steps[i].step.operands) {
      if (operand >= inputs) last_use[operand - inputs] = i;
    }
  }
  std::vector<std::size_t> busy_until;  // per place: the last reader of what lies there
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const auto free = std::find_if(busy_until.begin(), busy_until.end(),
                                   [i](std::size_t until) { return until < i; });
    steps[i].place = static_cast<std::size_t>(free - busy_until.begin());
    if (free == busy_until.end()) busy_until.push_back(0);
    busy_until[steps[i].place] = std::max(last_use[i], i);
  }
  return busy_until.size();
}

/// What makes the kernel that the operator would have by itself.
Result<const KernelDef*> step_maker(const OpCall& call, ChainForm form) {
  if (form == ChainForm::device) {  // asked about on the host, too
    for (const KernelDef& candidate : call.op->kernels) {
      if (candidate.on_gpus) return &candidate;
    }
    return base::error(Errc::unimplemented, "{} has no kernel for GPUs", call.op->name);
  }
  TROUPE_TRY_ASSIGN(const std::vector<Offer> list, offers(call));
  return list.front().maker;
}

/// The step's result for single elements, by its reference kernel; NaN where that fails.
float value_of(const PointwiseStep& step, const std::vector<float>& values) {
  OpCall call;
  call.op = step.op;
  call.params = step.params;
  call.inputs.assign(step.operands.size(), {base::DType::f32, Shape{1}, {}, false});
  call.outputs = {call.inputs.front()};
  call.reference_only = true;
  std::vector<TensorView> inputs(step.operands.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    // Kernels write no input.
    inputs[k].data = const_cast<float*>(&values[step.operands[k]]);
    inputs[k].shape = Shape{1};
  }
  float result = std::numeric_limits<float>::quiet_NaN();
  TensorView output = inputs.front();
  output.data = &result;
  const auto kernel = prepare(call);
  if (!kernel.ok()) return result;
  KernelContext context;
  context.inputs = inputs;
  context.outputs = {&output, 1};
  const Status done = (*kernel)->run(context);
  return done.ok() ? result : std::numeric_limits<float>::quiet_NaN();
}

class ChainKernel final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const std::string& name, const OpCall& call,
                                              ChainForm form) {
    PointwiseChain chain = chain_of(call.params);
    TROUPE_TRY_ASSIGN(const base::Layout layout, chain_layout(call, chain));
    auto kernel = std::make_unique<ChainKernel>();
    kernel->layout_ = layout;
    kernel->input_layouts_ = chain_input_layouts(chain, layout);
    const base::DType dtype = call.outputs[0].dtype;
    const bool narrow = base::is_16_bit(dtype);
    chain = narrow ? widened(std::move(chain), dtype) : guarded(std::move(chain));
    kernel->inputs_ = chain.inputs;
    kernel->is_number_ = chain.is_number();
    kernel->dtype_ = dtype;
    kernel->wide_ = narrow ? base::DType::f32 : dtype;
    kernel->size_ = static_cast<std::int64_t>(base::dtype_size(dtype));
    kernel->count_ =
        layout.buffer_bytes(call.outputs[0].shape, base::dtype_size(dtype)) / kernel->size_;
    for (PointwiseStep& step : chain.steps) kernel->steps_.push_back({std::move(step)});
    kernel->places_ = plan_places(kernel->inputs_, kernel->steps_);
    TROUPE_TRY(kernel->choose(call, form));
    TROUPE_TRY(kernel->prepare_steps(call));
    kernel->name_ = kernel->describe(name);
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  std::string name() const override { return name_; }
  std::vector<base::Layout> input_layouts() const override { return input_layouts_; }
  std::vector<base::Layout> output_layouts() const override { return {layout_}; }
  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(parts_) * part_bytes();
  }

  bool keeps_sample_bits() const override {
    return std::ranges::all_of(steps_, [](const PlannedStep& step) {
      return !step.kernel() || step.kernel()->keeps_sample_bits();
    });
  }

  Status run(const KernelContext& context) const override {
    const std::int64_t blocks = (count_ + block_ - 1) / block_;
    const std::int64_t parts = std::min<std::int64_t>({parts_, std::max(context.team, 1), blocks});
    if (parts_ == 1) return run_part(context, 0, 0, blocks, context.team);
    if (parts <= 1) return run_part(context, 0, 0, blocks, 1);
    std::array<Status, kPartsMost> statuses;
    context.parallel(parts, [&](std::int64_t part) {
      statuses[static_cast<std::size_t>(part)] =
          run_part(context, part, blocks * part / parts, blocks * (part + 1) / parts, 1);
    });
    for (const Status& status : statuses) TROUPE_TRY(status);
    return {};
  }

 private:
  static constexpr std::int64_t kPartsMost = 256;

  /// Makers of the steps' kernels, and from them the size of blocks and who takes them.
  Status choose(const OpCall& call, ChainForm form) {
    bool together = false;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      OpCall step = call_on_rows(call, i, std::max<std::int64_t>(count_, 1), call.team);
      step.reference_only = form == ChainForm::reference;
      TROUPE_TRY_ASSIGN(steps_[i].maker, step_maker(step, form));
      together = together || steps_[i].maker->leads_team;
    }
    if (form == ChainForm::device) {
      block_ = std::max<std::int64_t>(count_, 1);
    } else if (together) {
      block_ = fitting_block(kTeamBlockBytes * std::max(call.team, 1), 1);
      step_team_ = call.team;
    } else {
      block_ = fitting_block(kBlockBytes, 1);
      const std::int64_t most = std::min(kPartsMost, (count_ + block_ - 1) / block_);
      parts_ = std::clamp<std::int64_t>(call.team, 1, std::max<std::int64_t>(most, 1));
      block_ = fitting_block(kBlockBytes, parts_);
    }
    return {};
  }

  /// Elements of a block of at most `bytes`, so that what all `parts` keep between steps is no more
  /// than one tensor, but not so few that calls cost more than their work.
  std::int64_t fitting_block(std::int64_t bytes, std::int64_t parts) const {
    constexpr std::int64_t kLeast = 2048;
    const std::int64_t kept = parts * std::max<std::int64_t>(static_cast<std::int64_t>(places_), 1);
    const std::int64_t most = std::max(count_ / kept / kLeast * kLeast, kLeast);
    return std::min(bytes / wide_size(), most);
  }

  Status prepare_steps(const OpCall& call) {
    const std::int64_t rest = count_ % block_;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const auto prepare = [&](std::int64_t elements) -> Result<std::shared_ptr<const Kernel>> {
        TROUPE_TRY_ASSIGN(std::shared_ptr<const Kernel> kernel,
                          steps_[i].maker->prepare(call_on_rows(call, i, elements, step_team_)));
        step_scratch_ = std::max(step_scratch_, aligned(kernel->scratch_bytes()));
        return kernel;
      };
      if (count_ >= block_) {
        TROUPE_TRY_ASSIGN(steps_[i].whole, prepare(block_));
      }
      if (rest > 0) {
        TROUPE_TRY_ASSIGN(steps_[i].rest, prepare(rest));
      }
    }
    return {};
  }

  /// "blocks(exp simd, clip reference)".
  std::string describe(const std::string& form) const {
    std::string text;
    for (const PlannedStep& planned : steps_) {
      if (!text.empty()) text += ", ";
      text += planned.step.op->name;
      if (planned.kernel() != nullptr) text += " " + planned.kernel()->name();
    }
    return form + "(" + text + ")";
  }

  base::DType dtype_of(std::size_t operand) const {
    const bool outside = operand < inputs_ || steps_[operand - inputs_].place == kOutput;
    return outside ? dtype_ : wide_;
  }

  /// Of an operand, where tensors have `elements`.
  Shape shape_of(std::size_t operand, std::int64_t elements) const {
    return is_number_[operand] ? Shape{} : Shape{elements};
  }

  /// A step's call on rows of `elements`.
  OpCall call_on_rows(const OpCall& chain, std::size_t index, std::int64_t elements,
                      int team) const {
    const PointwiseStep& step = steps_[index].step;
    const auto describe = [&](std::size_t value) {
      return TensorDesc{dtype_of(value), shape_of(value, elements), {}, false};
    };
    OpCall call;
    call.op = step.op;
    call.params = step.params;
    for (const std::size_t operand : step.operands) call.inputs.push_back(describe(operand));
    call.outputs = {describe(inputs_ + index)};
    call.device = chain.device;
    call.team = team;
    return call;
  }

  /// Of an operand: in the call's inputs, or where a step's result lies.
  void* address(const KernelContext& context, std::byte* scratch, std::size_t operand,
                std::int64_t begin) const {
    const auto offset = is_number_[operand] ? 0 : begin * size_;
    if (operand < inputs_) return static_cast<std::byte*>(context.inputs[operand].data) + offset;
    const std::size_t place = steps_[operand - inputs_].place;
    if (place == kOutput) return static_cast<std::byte*>(context.outputs[0].data) + offset;
    return scratch + place * place_bytes();
  }

  /// Blocks [first, end), with the scratch memory of `part` and a team for each step.
  Status run_part(const KernelContext& context, std::int64_t part, std::int64_t first,
                  std::int64_t end, int team) const {
    std::byte* const scratch =
        context.scratch.data() + static_cast<std::size_t>(part) * part_bytes();
    std::array<TensorView, kStepOperandsMost> views;
    for (TensorView& view : views) view.device = context.outputs[0].device;
    TensorView output = views[0];
    KernelContext own = context;
    own.outputs = {&output, 1};
    for (std::int64_t block = first; block < end; ++block) {
      const std::int64_t begin = block * block_;
      const std::int64_t elements = std::min(block_, count_ - begin);
      for (std::size_t i = 0; i < steps_.size(); ++i) {
        const PlannedStep& step = steps_[i];
        for (std::size_t k = 0; k < step.step.operands.size(); ++k) {
          views[k].dtype = dtype_of(step.step.operands[k]);
          views[k].shape = shape_of(step.step.operands[k], elements);
          views[k].data = address(context, scratch, step.step.operands[k], begin);
        }
        own.inputs = {views.data(), step.step.operands.size()};
        output.dtype = dtype_of(inputs_ + i);
        output.shape = shape_of(inputs_ + i, elements);
        output.data = address(context, scratch, inputs_ + i, begin);
        const Kernel& kernel = *(elements == block_ ? step.whole : step.rest);
        own.scratch = {scratch + places_ * place_bytes(), kernel.scratch_bytes()};
        own.team = kernel.threads(team);
        TROUPE_TRY(kernel.run(own));
      }
    }
    return {};
  }

  static std::size_t aligned(std::size_t bytes) {
    constexpr std::size_t kAlignment = 64;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::size_t place_bytes() const {
    return aligned(static_cast<std::size_t>(std::min(block_, count_) * wide_size()));
  }
  std::int64_t wide_size() const { return static_cast<std::int64_t>(base::dtype_size(wide_)); }
  std::size_t part_bytes() const { return places_ * place_bytes() + step_scratch_; }

  std::string name_;
  base::Layout layout_;
  std::vector<base::Layout> input_layouts_;
  std::vector<bool> is_number_;                                     // of inputs and steps
  base::DType dtype_ = base::DType::f32, wide_ = base::DType::f32;  // outside; between steps
  std::size_t inputs_ = 0;
  std::int64_t size_ = 0, count_ = 0, block_ = 1;  // bytes of an element; elements
  std::int64_t parts_ = 1;  // threads that take blocks; 1: all together take each
  int step_team_ = 1;       // that the steps' kernels are prepared for
  std::size_t places_ = 0, step_scratch_ = 0;
  std::vector<PlannedStep> steps_;
};

}  // namespace

bool maps_zero_to_zero(const PointwiseChain& chain) {
  std::vector<bool> zero(chain.inputs, true);  // of inputs and steps, by every kernel
  std::vector<float> values(chain.inputs, 0.0F);
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t number : chain.numbers) {
    zero[number] = false;
    values[number] = kUnknown;
  }
  for (const PointwiseStep& step : chain.steps) {
    const auto is_zero = [&zero](std::size_t operand) { return zero[operand]; };
    const auto is_finite = [&values](std::size_t operand) {
      return std::isfinite(values[operand]);
    };
    const bool keeps = step.op->maps_zero_to_zero && step.op->maps_zero_to_zero(step.params);
    const bool product = step.op->name == "multiply" || step.op->name == "multiply_elemwise";
    zero.push_back((keeps && std::ranges::all_of(step.operands, is_zero)) ||
                   (product && std::ranges::any_of(step.operands, is_zero) &&
                    std::ranges::all_of(step.operands, is_finite)));
    const bool known = std::ranges::none_of(
        step.operands, [&values](std::size_t operand) { return std::isnan(values[operand]); });
    values.push_back(zero.back() ? 0.0F : known ? value_of(step, values) : kUnknown);
  }
  return zero.back();
}

double chain_seconds(const OpCall& call, ChainForm form) {
  double slow = 0.0;
  for (const PointwiseStep& step : chain_of(call.params).steps) {
    OpCall own;
    own.op = step.op;
    own.params = step.params;
    own.inputs.assign(step.operands.size(), call.outputs.front());
    own.outputs = {call.outputs.front()};
    own.team = call.team;
    const KernelDef& reference = step.op->kernels.back();
    const bool alone = std::ranges::all_of(step.op->kernels, [&reference](const KernelDef& each) {
      return each.on_gpus || &each == &reference;
    });
    if (alone || form == ChainForm::reference) slow += reference.rule_seconds(own);
  }
  return std::max(roofline_seconds(call), slow);
}

Result<base::Layout> chain_layout(const OpCall& call, const PointwiseChain& chain) {
  if (chain.numbers.empty()) return common_layout(call);
  OpCall tensors = call;
  const std::vector<bool> is_number = chain.is_number();
  tensors.inputs.clear();
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    if (!is_number[k]) tensors.inputs.push_back(call.inputs[k]);
  }
  return common_layout(tensors);
}

std::vector<base::Layout> chain_input_layouts(const PointwiseChain& chain,
                                              const base::Layout& layout) {
  std::vector<base::Layout> layouts(chain.inputs, layout);
  for (const std::size_t number : chain.numbers) layouts[number] = base::Layout::dense();
  return layouts;
}

Result<std::unique_ptr<Kernel>> make_chain_kernel(const std::string& name, const OpCall& call,
                                                  ChainForm form) {
  return ChainKernel::make(name, call, form);
}

}  // namespace troupe::ops
