// SPDX-License-Identifier: Apache-2.0
// Imperative calls: checking, preparing, pushing.
#include "ndarray/invoke.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "ndarray/operands.h"
#include "ndarray/recycled.h"
#include "ndarray/run_kernel.h"

namespace troupe::ndarray {

namespace {

using base::Errc;

/// A number's bytes in the dtype of a call.
class Number {
 public:
  /// invalid_argument where the dtype is not floating.
  static base::Result<Number> make(const NumberInput& input, base::DType dtype) {
    Number number;
    number.index_ = input.index;
    number.dtype_ = dtype;
    TROUPE_TRY(ops::with_real(dtype, [&](auto zero) {
      const auto narrowed = static_cast<decltype(zero)>(input.value);
      std::memcpy(number.bytes_, &narrowed, sizeof(narrowed));
      return base::Status();
    }));
    return number;
  }

  std::size_t index() const { return index_; }
  Operand operand() const { return {dtype_, base::Shape()}; }
  std::span<const std::byte> bytes() const { return {bytes_, base::dtype_size(dtype_)}; }
  base::TensorView view() { return {bytes_, dtype_, base::Shape(), {}, {}}; }

 private:
  std::size_t index_ = 0;
  base::DType dtype_ = base::DType::f32;
  alignas(double) std::byte bytes_[sizeof(double)] = {};
};

/// Everything that one pushed call needs while it runs.
struct Call {
  std::shared_ptr<const ops::Kernel> kernel;
  std::vector<NDArray> inputs, outputs;
  std::optional<Number> number;  // one more input
  std::vector<bool> content;     // per output: its old values matter
  NDArray scratch;
  std::optional<RandomGenerator> generator;
  std::vector<Operand> operands;                            // of the inputs and the number
  std::vector<base::TensorView> input_views, output_views;  // while it runs
  Call* next = nullptr;

  /// See Recycled.
  bool clear() {
    constexpr std::size_t kLong = 16;
    kernel.reset();
    inputs.clear();
    outputs.clear();
    number.reset();
    content.clear();
    scratch = {};
    generator.reset();
    operands.clear();
    input_views.clear();
    output_views.clear();
    return inputs.capacity() <= kLong && outputs.capacity() <= kLong;
  }

  base::Status run(engine::RunContext& lane) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TROUPE_TRY(outputs[i].make_writable(content[i], lane.stream));
      output_views.push_back(outputs[i].view());
    }
    for (const NDArray& input : inputs) input_views.push_back(input.view());
    if (number) {
      const auto at = static_cast<std::ptrdiff_t>(number->index());
      input_views.insert(input_views.begin() + at, number->view());
    }
    KernelBuffers buffers{.inputs = input_views, .outputs = output_views};
    if (scratch) buffers.scratch = {scratch.data(), scratch.bytes()};
    buffers.fresh = std::find(content.begin(), content.end(), true) == content.end();
    RandomDraw draw;
    if (generator) {
      RandomState& state = *generator->state();
      draw = {state.key, state.position++};
    }
    return run_kernel(kernel, buffers, lane, draw);
  }
};

/// An error unless `array`, input or output `index`, may take part in a call on `runtime`.
base::Status check_part(const Runtime& runtime, const std::string& op, const char* part,
                        std::size_t index, const NDArray& array) {
  TROUPE_TRY(array.status());
  if (!array) return base::error(Errc::invalid_argument, "[{}] got an empty handle", op);
  if (runtime.engine.owns(array.variable())) return {};
  TROUPE_TRY(array.check_usable());
  return base::error(Errc::invalid_argument, "[{}] {} {} ({} {}) belongs to another engine", op,
                     part, index, base::dtype_name(array.dtype()), array.shape().to_string());
}

base::Result<base::Device> common_device(const Runtime& runtime, const std::string& op,
                                         std::span<const NDArray> inputs, base::Device otherwise) {
  if (inputs.empty()) return otherwise;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const NDArray& input = inputs[i];
    TROUPE_TRY(check_part(runtime, op, "input", i, input));
    if (input.device() == inputs.front().device()) continue;
    return base::error(Errc::invalid_argument, "[{}] inputs are on {} and {}", op,
                       inputs.front().device().to_string(), input.device().to_string());
  }
  return inputs.front().device();
}

/// Brings in the number among the inputs. Work on a stream may run when the call is gone, so there
/// it is an array.
base::Status add_number(Runtime& runtime, const std::string& op, const InvokeOptions& options,
                        base::Device device, Call& work) {
  if (!options.number) return {};
  const std::size_t index = options.number->index;
  if (work.inputs.empty() || index > work.inputs.size()) {
    return base::error(Errc::invalid_argument, "[{}] a number cannot be input {} beside {} arrays",
                       op, index, work.inputs.size());
  }
  base::Result<Number> number = Number::make(*options.number, work.inputs.front().dtype());
  if (!number.ok()) {
    base::Status status = number.status();
    return status.with_context(fmt::format("[{}] its number", op));
  }
  if (!uses_stream(device)) {
    work.number = *number;
    return {};
  }
  TROUPE_TRY_ASSIGN(NDArray array,
                    NDArray::from_bytes(runtime, base::Shape(), number->operand().dtype,
                                        number->bytes(), device));
  work.inputs.insert(work.inputs.begin() + static_cast<std::ptrdiff_t>(index), std::move(array));
  return {};
}

/// From the cache, or inferred and prepared now.
base::Result<std::shared_ptr<const PreparedCall>> prepare(Runtime& runtime,
                                                          const CallRequest& request) {
  if (auto known = runtime.kernels.find(request)) return known;
  const ops::OpDef& op = *request.op;
  TROUPE_TRY_ASSIGN(
      ops::Params params,
      ops::parse_params(op, ops::with_num_args(op, *request.attributes, request.inputs.size())));
  std::vector<ops::TensorDesc> tensors;
  for (const Operand& input : request.inputs) {
    tensors.push_back({input.dtype, input.shape, {}, false});
  }
  auto made = std::make_shared<PreparedCall>();
  TROUPE_TRY_ASSIGN(made->call, ops::make_call(op, std::move(params), std::move(tensors)));
  ops::OpCall& call = made->call;
  call.device = request.device;
  call.team = request.team;
  call.reference_only = request.reference_only;
  made->visible_outputs = static_cast<std::size_t>(op.visible_output_count(call.params));
  if (request.adds) {  // hidden outputs are nobody's to add to
    call.modes.assign(call.outputs.size(), ops::WriteMode::write);
    std::fill_n(call.modes.begin(), made->visible_outputs, ops::WriteMode::add);
  }
  TROUPE_TRY_ASSIGN(made->kernel, runtime.kernels.get(call));
  made->scratch_bytes = made->kernel->scratch_bytes();
  runtime.kernels.keep(request, made);
  return std::shared_ptr<const PreparedCall>(std::move(made));
}

/// No two outputs have bytes in common: a kernel may write them in any order.
base::Status check_apart(const std::string& op, std::span<const NDArray> outputs) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].bytes() > 0) order.push_back(i);
  }
  const auto place = [outputs](std::size_t i) {
    return std::pair(outputs[i].variable().state(), outputs[i].offset());
  };
  std::ranges::sort(order, {}, place);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const NDArray& before = outputs[order[i - 1]];
    const NDArray& next = outputs[order[i]];
    if (!(before.variable() == next.variable())) continue;
    if (before.offset() + before.bytes() <= next.offset()) continue;
    const auto [first, second] = std::minmax(order[i - 1], order[i]);
    return base::error(Errc::invalid_argument, "[{}] outputs {} and {} lie in the same memory", op,
                       first, second);
  }
  return {};
}

/// Arrays for all outputs: those that were given, new ones for the others.
base::Status make_outputs(Runtime& runtime, const PreparedCall& prepared,
                          const InvokeOptions& options, std::vector<NDArray>& outputs) {
  const ops::OpCall& call = prepared.call;
  outputs.assign(options.outputs.begin(), options.outputs.end());
  const std::size_t visible = prepared.visible_outputs;
  if (!outputs.empty() && outputs.size() != visible && outputs.size() != call.outputs.size()) {
    return base::error(Errc::invalid_argument, "[{}] has {} outputs, {} are given", call.op->name,
                       visible, outputs.size());
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const ops::TensorDesc& wanted = call.outputs[i];
    if (i >= outputs.size()) {
      const bool adds = !call.modes.empty() && call.modes[i] == ops::WriteMode::add;
      auto made = adds ? NDArray::zeros(runtime, wanted.shape, wanted.dtype, call.device)
                       : NDArray::empty(runtime, wanted.shape, wanted.dtype, call.device);
      TROUPE_TRY(made.status());
      outputs.push_back(*std::move(made));
      continue;
    }
    const NDArray& given = outputs[i];
    TROUPE_TRY(given.status());
    if (given) TROUPE_TRY(check_part(runtime, call.op->name, "output", i, given));
    if (!given || given.shape() != wanted.shape || given.dtype() != wanted.dtype ||
        given.device() != call.device) {
      return base::error(Errc::invalid_argument, "[{}] output {} is {} {}, the given array {} {}",
                         call.op->name, i, base::dtype_name(wanted.dtype), wanted.shape.to_string(),
                         given ? base::dtype_name(given.dtype()) : "empty",
                         given ? given.shape().to_string() : "");
    }
  }
  if (options.outputs.size() > 1) TROUPE_TRY(check_apart(call.op->name, outputs));
  return {};
}

/// Variables of one list of an operation; a few of them need no memory of their own.
class Names {
 public:
  void add(const engine::Variable& variable) {
    if (more_.empty() && count_ < few_.size()) {
      few_[count_++] = variable;
      return;
    }
    if (more_.empty()) more_.assign(few_.begin(), few_.end());
    more_.push_back(variable);
  }
  std::span<const engine::Variable> all() const {
    return more_.empty() ? std::span(few_).first(count_) : std::span(more_);
  }
  bool contains(const engine::Variable& variable) const {
    return std::ranges::find(all(), variable) != all().end();
  }

 private:
  std::array<engine::Variable, 4> few_;
  std::size_t count_ = 0;
  std::vector<engine::Variable> more_;
};

void push(Runtime& runtime, const std::string& name, Recycled<Call>::Handle held,
          const ops::OpCall& call, int priority) {
  Call& work = *held;
  Names reads, writes, overwrites;
  for (const NDArray& input : work.inputs) reads.add(input.variable());
  for (std::size_t i = 0; i < work.outputs.size(); ++i) {
    const NDArray& output = work.outputs[i];
    const bool adds = !call.modes.empty() && call.modes[i] == ops::WriteMode::add;
    work.content.push_back(adds || reads.contains(output.variable()) || !output.whole());
    (work.content.back() ? writes : overwrites).add(output.variable());
  }
  if (work.scratch) overwrites.add(work.scratch.variable());
  // A call that is skipped for an input's error draws nothing: the error is not the generator's.
  if (work.generator) overwrites.add(work.generator->variable());
  const engine::Lane lane{call.device, engine::LaneKind::compute};
  engine::Operation operation{name, reads.all(), writes.all(), lane, priority, overwrites.all()};
  for (const NDArray& output : work.outputs) operation.bytes += output.bytes();
  if (work.scratch) operation.bytes += work.scratch.bytes();
  // A part of an array may have to copy the whole of it first.
  operation.brief = work.kernel->brief() && std::ranges::all_of(work.outputs, &NDArray::whole);
  push_on_lane(runtime.engine, operation, [held = std::move(held)](engine::RunContext& context) {
    return held->run(context);
  });
}

/// Where the visible outputs go: all of them, or the first.
struct Results {
  std::vector<NDArray>* all = nullptr;
  NDArray* first = nullptr;

  void take(const std::vector<NDArray>& outputs, std::size_t visible) const {
    if (first != nullptr) *first = outputs.front();
    if (all != nullptr) {
      all->assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(visible));
    }
  }
};

/// Checks, prepares and pushes the call whose inputs `held` has.
base::Status push_call(Runtime& runtime, std::string_view op, Recycled<Call>::Handle held,
                       const ops::Attributes& attributes, const InvokeOptions& options,
                       const Results& results) {
  TROUPE_TRY_ASSIGN(const ops::OpDef* definition, runtime.ops.find(op));
  Call& work = *held;
  TROUPE_TRY_ASSIGN(const base::Device device,
                    common_device(runtime, definition->name, work.inputs, options.device));
  TROUPE_TRY(add_number(runtime, definition->name, options, device, work));
  for (const NDArray& input : work.inputs) work.operands.push_back({input.dtype(), input.shape()});
  if (work.number) {
    const auto at = static_cast<std::ptrdiff_t>(work.number->index());
    work.operands.insert(work.operands.begin() + at, work.number->operand());
  }
  const int team = runtime.engine.team({device, engine::LaneKind::compute});
  TROUPE_TRY_ASSIGN(
      const std::shared_ptr<const PreparedCall> prepared,
      prepare(runtime, {definition, &attributes, work.operands, device, team,
                        options.reference_only, options.mode == ops::WriteMode::add}));
  if (definition->random) {
    if (options.generator == nullptr) {
      return base::error(Errc::invalid_argument, "[{}] draws numbers and needs a generator",
                         definition->name);
    }
    if (!runtime.engine.owns(options.generator->variable())) {
      return base::error(Errc::invalid_argument, "[{}] its generator belongs to another engine",
                         definition->name);
    }
    work.generator = *options.generator;
  }
  TROUPE_TRY(make_outputs(runtime, *prepared, options, work.outputs));
  results.take(work.outputs, prepared->visible_outputs);
  work.kernel = prepared->kernel;
  Operands operands{work.inputs, work.outputs};
  if (work.number) operands.number = work.number->index();
  TROUPE_TRY_ASSIGN(const auto later,
                    separate(runtime, prepared->call, work.kernel->loads_wide(), operands));
  if (prepared->scratch_bytes > 0) {
    const base::Shape shape{static_cast<std::int64_t>(prepared->scratch_bytes)};
    TROUPE_TRY_ASSIGN(work.scratch,
                      NDArray::empty(runtime, shape, base::DType::u8, device, "scratch"));
  }
  push(runtime, definition->name, std::move(held), prepared->call, options.priority);
  for (const auto& [own, wanted] : later) TROUPE_TRY(wanted.copy_from(own));
  return {};
}

/// The first output, or a failed array.
NDArray first_of(Runtime& runtime, std::string_view op, Recycled<Call>::Handle held,
                 const ops::Attributes& attributes, const InvokeOptions& options) {
  NDArray first;
  const base::Status pushed =
      push_call(runtime, op, std::move(held), attributes, options, {.first = &first});
  return pushed.ok() ? first : NDArray::failed(pushed);
}

}  // namespace

base::Result<std::vector<NDArray>> invoke(Runtime& runtime, std::string_view op,
                                          std::span<const NDArray> inputs,
                                          const ops::Attributes& attributes,
                                          const InvokeOptions& options) {
  Recycled<Call>::Handle held = Recycled<Call>::take();
  held->inputs.assign(inputs.begin(), inputs.end());
  std::vector<NDArray> results;
  TROUPE_TRY(push_call(runtime, op, std::move(held), attributes, options, {.all = &results}));
  return results;
}

NDArray call(Runtime& runtime, std::string_view op, const std::vector<NDArray>& inputs,
             const ops::Attributes& attributes, const InvokeOptions& options) {
  Recycled<Call>::Handle held = Recycled<Call>::take();
  held->inputs.assign(inputs.begin(), inputs.end());
  return first_of(runtime, op, std::move(held), attributes, options);
}

NDArray call_pair(Runtime& runtime, std::string_view op, const NDArray& a, const NDArray& b) {
  Recycled<Call>::Handle held = Recycled<Call>::take();
  held->inputs.push_back(a);
  held->inputs.push_back(b);
  return first_of(runtime, op, std::move(held), {}, {});
}

}  // namespace troupe::ndarray
