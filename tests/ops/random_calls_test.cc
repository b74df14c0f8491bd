// SPDX-License-Identifier: Apache-2.0
// Random calls of every operator: parameters, shapes, dtypes, layouts, write modes, teams and
// values are drawn, and every kernel that takes a call is compared with the reference. Gradients
// come from the operators' own gradient functions, so their inputs belong together.
// TROUPE_FUZZ_SEED and TROUPE_FUZZ_CALLS (per operator) choose what is drawn, TROUPE_FUZZ_OP one
// operator; a failure names the seed of its call.
#include <set>

#include "tests/ops/cases.h"
#include "tests/ops/random_calls.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary
using base::Errc;
using base::Status;

/// A call with dense inputs, what outputs hold before it, and what they hold behind it.
struct Trial {
  OpCall call;
  std::vector<Tensor> inputs, before;
  std::vector<Tensor> results;    ///< by the reference in the call's dtype, nothing added
  std::vector<Tensor> own;        ///< the same in the call's write modes
  std::vector<Tensor> wide;       ///< by the reference in f64
  std::vector<Tensor> magnitude;  ///< the same of absolute values
  Values values = Values::plain;
};

/// What results of the operator may differ by that are small beside what they are made of.
double least_scale(const Trial& t) {
  if (t.call.op->name.starts_with("log_softmax")) return 1;
  if (!t.call.op->name.starts_with("batch_norm")) return 0;
  return (t.values == Values::ties ? 4 : 8) / std::sqrt(t.call.params.real("eps"));
}

bool close(double x, double y, double limit) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return x == y || std::abs(x - y) <= limit;
}

/// What is wrong with output `o`, a dense tensor; empty: nothing.
std::string differs(const Trial& t, std::size_t o, const Tensor& got) {
  const OpDef& op = *t.call.op;
  const Tensor &own = t.own[o], &wide = t.wide[o], &magnitude = t.magnitude[o];
  const bool adds = !t.call.modes.empty() && t.call.modes[o] == WriteMode::add;
  if (!base::is_floating(got.dtype) || (moves(op) && !adds)) {
    return got.same_bits(own) ? "" : fmt::format("output {} has other bits", o);
  }
  double greatest = least_scale(t);
  for (std::int64_t i = 0; i < wide.elements(); ++i) {
    if (std::isfinite(wide.at(i))) greatest = std::max(greatest, std::abs(wide.at(i)));
  }
  // Such as 1 + erf(x) of the reference's gelu, which loses what is far below.
  const bool cancels = op.name.starts_with("leaky_relu") || op.name.starts_with("silu") ||
                       op.name == "fused_pointwise";
  const bool alone =
      op.elementwise && !cancels && t.values != Values::plain && t.values != Values::ties;
  const double tiny = got.dtype == DType::f16 ? 6e-8 : cancels ? 1e-15 : 1e-37;
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const double x = got.at(i), y = wide.at(i), z = own.at(i), a = std::abs(magnitude.at(i));
    double scale = std::isfinite(y) ? std::abs(y) : 0.0;
    if (!alone) scale += greatest + (std::isfinite(a) ? a : 0.0);
    if (adds || cancels || op.name.ends_with("_backward")) scale += 2;
    const double limit = tolerance(got.dtype) * scale + tiny;
    if (close(x, y, limit) || close(x, z, std::isfinite(z) ? limit : 0.0)) continue;
    // What is infinite in one order of a sum may be NaN in another.
    if ((!op.elementwise || cancels) && !std::isfinite(x) && !std::isfinite(y)) continue;
    if (spreads(op) && t.values == Values::special && !std::isfinite(x)) continue;
    return fmt::format("output {} at {}: {} instead of {} (in f64 {}), limit {}", o, i, x, z, y,
                       limit);
  }
  return "";
}

/// Runs a kernel, for whose scratch `poison` is written, in a team.
Status run(const Kernel& kernel, const OpCall& call, const std::vector<Tensor>& inputs,
           const std::vector<Tensor>& outputs, int poison) {
  std::vector<base::TensorView> in, out;
  for (const Tensor& tensor : inputs) in.push_back(tensor.view());
  for (const Tensor& tensor : outputs) out.push_back(tensor.view());
  const Tensor scratch =
      guarded(DType::u8, Shape{std::int64_t(kernel.scratch_bytes())}, {}, poison);
  base::SlotStore slots;
  const KernelContext context{.inputs = in,
                              .outputs = out,
                              .scratch = {scratch.memory.data(), kernel.scratch_bytes()},
                              .random_key = {42},
                              .random_step = 3,
                              .team = kernel.threads(call.team),
                              .slots = &slots};
  Status status;
  base::lead_team(call.team, [&] { status = kernel.run(context); });
  if (!guards_intact(scratch)) return base::error(Errc::internal, "writes beyond its scratch");
  return status;
}

/// The reference's outputs, dense; in f64 where `widen`, of absolute values where `absolute`.
base::Result<std::vector<Tensor>> by_reference(const Trial& t, bool widen, bool absolute) {
  std::vector<Tensor> inputs, outputs;
  for (const Tensor& tensor : t.inputs) {
    const bool change = widen && base::is_floating(tensor.dtype);
    inputs.push_back(change ? converted(tensor, DType::f64) : tensor);
    for (std::int64_t i = 0; absolute && change && i < tensor.elements(); ++i) {
      inputs.back().set(i, std::abs(tensor.at(i)));
    }
  }
  TROUPE_TRY_ASSIGN(OpCall call, make_call(*t.call.op, t.call.params, describe(inputs)));
  call.reference_only = true;
  call.modes = t.call.modes;
  TROUPE_TRY_ASSIGN(const std::unique_ptr<Kernel> kernel, prepare(call));
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    outputs.push_back(t.before[o].dtype == call.outputs[o].dtype
                          ? t.before[o].clone()
                          : converted(t.before[o], call.outputs[o].dtype));
  }
  TROUPE_TRY(run(*kernel, call, inputs, outputs, 0xff));
  return outputs;
}

/// Dtypes of inputs: `dtype`, any for labels, what inference says for vectors beside 16 bits.
base::Result<std::vector<DType>> draw_dtypes(Random& r, const OpDef& op, const Params& params,
                                             const Draw& d, const std::vector<Shape>& shapes,
                                             DType dtype) {
  std::vector<std::optional<DType>> inputs(shapes.size(), dtype);
  const bool free = base::is_16_bit(dtype) && r.one_in(2);
  for (std::size_t i = 1; free && i < inputs.size(); ++i) {
    if (shapes[i].rank() == 1 && shapes[0].rank() > 1) inputs[i].reset();
  }
  for (const auto& [index, range] : d.labels) {
    if (range.second == 0) return base::error(Errc::invalid_argument, "no class");
    inputs[std::size_t(index)] = r.of({DType::f32, DType::f64, DType::i64, DType::i32, DType::u8});
  }
  if (op.name == "cast_like") inputs[1] = draw_dtype(r);
  std::vector<std::optional<DType>> outputs(op.outputs(params).size());
  TROUPE_TRY(infer_dtypes(op, params, inputs, outputs));
  std::vector<DType> dtypes;
  for (const std::optional<DType>& each : inputs) dtypes.push_back(each.value_or(dtype));
  return dtypes;
}

/// References and what outputs hold before the call, for the trial's call and inputs.
Status complete(Random& r, Trial& t) {
  for (const TensorDesc& output : t.call.outputs) {
    t.before.push_back(random_tensor(output.dtype, output.shape, "before", -1, 1));
  }
  TROUPE_TRY_ASSIGN(t.results, by_reference(t, false, false));
  if (!t.call.op->accumulates.empty() && r.one_in(3)) {
    t.call.modes.assign(t.call.outputs.size(), WriteMode::write);
    for (const int o : t.call.op->accumulates) {
      const bool there = std::size_t(o) < t.before.size();
      if (!there || !base::is_floating(t.before[std::size_t(o)].dtype) || r.one_in(4)) continue;
      t.call.modes[std::size_t(o)] = WriteMode::add;
    }
  }
  TROUPE_TRY_ASSIGN(t.own, by_reference(t, false, false));
  TROUPE_TRY_ASSIGN(t.wide, by_reference(t, true, false));
  TROUPE_TRY_ASSIGN(t.magnitude, by_reference(t, true, true));
  return {};
}

/// A call of the operator; invalid_argument where what was drawn is none.
base::Result<Trial> draw_trial(Random& r, const OpDef& op, const Maker& make) {
  Draw d;
  make(r, d);
  TROUPE_TRY_ASSIGN(Params params,
                    parse_params(op, with_num_args(op, d.attributes, d.shapes.size())));
  const std::vector<std::string> names = op.inputs(params);
  std::vector<Shape> shapes = d.shapes;
  shapes.resize(names.size(), Shape::unknown());
  std::vector<Shape> outputs(op.outputs(params).size(), Shape::unknown());
  TROUPE_TRY(infer_shapes(op, params, shapes, outputs));
  for (const Shape& shape : shapes) {
    if (!shape.complete()) return base::error(Errc::invalid_argument, "incomplete");
  }
  Trial t;
  const std::array kinds = {Values::plain,   Values::plain,   Values::plain,
                            Values::ties,    Values::ties,    Values::wide,
                            Values::special, Values::special, Values::tiny};
  t.values = kinds[std::size_t(r.in(0, std::int64_t(kinds.size()) - 1))];
  const bool no_sum = op.elementwise || moves(op);
  if (!no_sum && (t.values == Values::wide || t.values == Values::tiny)) t.values = Values::plain;
  TROUPE_TRY_ASSIGN(const auto dtypes, draw_dtypes(r, op, params, d, shapes, draw_dtype(r)));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto label = d.labels.find(int(i));
    t.inputs.push_back(draw_tensor(r, names[i], {dtypes[i], shapes[i], {}, false}, t.values, no_sum,
                                   label == d.labels.end() ? nullptr : &label->second));
  }
  TROUPE_TRY_ASSIGN(t.call, make_call(op, std::move(params), describe(t.inputs)));
  if (operations(t.call) > std::min(2e7, kOperationsMax))
    return base::error(Errc::invalid_argument, "large");
  TROUPE_TRY(complete(r, t));
  return t;
}

/// What comes back to the visible outputs of a call.
std::vector<Tensor> output_gradients(Random& random, const Trial& forward) {
  std::vector<Tensor> gradients;
  for (int o = 0; o < forward.call.op->visible_output_count(forward.call.params); ++o) {
    const Tensor& output = forward.own[std::size_t(o)];
    gradients.push_back(draw_tensor(random, "", {output.dtype, output.shape, {}, false},
                                    forward.values, forward.call.op->elementwise, nullptr));
  }
  return gradients;
}

/// Computes an operator's gradient by the reference and keeps the calls of which it consists.
class Recorder final : public Evaluator {
 public:
  Recorder(const OpTable& table, Random& random, const Trial& forward)
      : Evaluator(table, forward.call.params, forward.inputs, forward.results,
                  output_gradients(random, forward)),
        random_(random),
        values_(forward.values) {}

  std::vector<Trial> calls;

 protected:
  std::vector<Tensor> call(std::string_view op, std::vector<Tensor> inputs,
                           const Attributes& attributes) override {
    Trial t;
    t.values = values_;
    t.inputs = std::move(inputs);
    const OpDef& called = table_.at(op);
    auto made = make_call(called, parse_params(called, attributes).value(), describe(t.inputs));
    INFO(op << ": " << made.status().to_string());
    REQUIRE(made.ok());
    t.call = *std::move(made);
    const Status status = complete(random_, t);
    INFO(status.to_string());
    REQUIRE(status.ok());
    calls.push_back(std::move(t));
    return calls.back().results;
  }

 private:
  Random& random_;
  const Values values_;
};

/// In another layout, by bytes or, where one is opaque, by whichever kernel of a reorder knows
/// both; nothing where none does.
std::optional<Tensor> in_layout(const Tensor& tensor, const Layout& layout) {
  if (tensor.layout == layout) return tensor;
  const auto opaque = [](const Layout& each) { return each.kind == Layout::Kind::opaque; };
  Tensor result(tensor.dtype, tensor.shape, layout);
  if (!opaque(layout) && !opaque(tensor.layout)) {
    const std::size_t size = base::dtype_size(tensor.dtype);
    std::memset(result.memory.data(), 0, result.bytes());
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const std::int64_t to = tests::offset_in(layout, tensor.shape, i);
      const std::int64_t from = tests::offset_in(tensor.layout, tensor.shape, i);
      std::memcpy(result.memory.data() + std::size_t(to) * size,
                  tensor.memory.data() + std::size_t(from) * size, size);
    }
    return result;
  }
  static const OpTable table = OpTable::build();
  OpCall call = *make_call(table.at("reorder"), {}, describe({tensor}));
  call.outputs[0].layout = layout;
  const auto kernel = prepare(call);
  if (!kernel.ok() || !run(**kernel, call, {tensor}, {result}, 0).ok()) return std::nullopt;
  return result;
}

/// True when the padding of a tensor of these elements is 0 or -0.
bool zero_between(const Trial& t, const Tensor& tensor, const Tensor& dense) {
  if (tensor.layout.kind != Layout::Kind::blocked) return true;
  const Tensor again = packed(dense, tensor.layout);
  for (std::int64_t i = 0; i < tensor.layout.padded.elements(); ++i) {
    const bool spread = spreads(*t.call.op) && t.values == Values::special;
    if (again.at(i) == 0 && tensor.at(i) != 0 && !(spread && std::isnan(tensor.at(i))))
      return false;
  }
  return true;
}

/// One kernel on one call.
class Bench {
 public:
  Bench(Random& random, const Trial& trial, OpCall call, const KernelDef& candidate)
      : r_(random), t_(trial), call_(std::move(call)), candidate_(candidate) {}

  /// What is wrong; empty: nothing, or the kernel declines.
  std::string check() {
    auto made = candidate_.on_gpus || r_.one_in(2) ? candidate_.make_kernel(call_)
                                                   : candidate_.prepare(call_);
    if (!made.ok()) {
      const bool said =
          made.status().code() == Errc::unimplemented && !made.status().text().empty();
      const auto dense = [](const TensorDesc& desc) { return desc.layout.is_dense(); };
      if (candidate_.name == "reference" &&
          std::all_of(call_.inputs.begin(), call_.inputs.end(), dense)) {
        return "declines: " + made.status().to_string();
      }
      return said || candidate_.by_choice ? "" : made.status().to_string();
    }
    kernel_ = *std::move(made);
    const auto in = kernel_->input_layouts(), out = kernel_->output_layouts();
    for (std::size_t i = 0; i < t_.inputs.size(); ++i) {
      const auto tensor = in_layout(t_.inputs[i], in.empty() ? Layout{} : in[i]);
      if (!tensor) return "";
      inputs_.push_back(moved(*tensor, shift(tensor->layout)));
    }
    for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
      out_.push_back(out.empty() ? Layout{} : out[o]);
    }
    ran = true;
    const std::vector<Tensor> outputs = make_outputs(0xff);
    if (outputs.size() != out_.size()) return "";
    std::string wrong = compute(inputs_, outputs, 0xff);
    for (std::size_t o = 0; wrong.empty() && o < outputs.size(); ++o) {
      const auto dense = in_layout(outputs[o], Layout{});
      if (dense) wrong = differs(t_, o, *dense);
      // Vector kernels do the reference's additions and products; exp has its own polynomial, and
      // softmax adds up its results in f32.
      const std::string& op = call_.op->name;
      const bool own = op == "exp" || op.find("softmax") != std::string::npos;
      if (candidate_.name == "simd" && !own && dense && call_.modes.empty() && wrong.empty() &&
          !alike(*dense, t_.own[o])) {
        wrong = fmt::format("output {} has other bits than the reference's", o);
      }
      if (wrong.empty() && dense && !zero_between(t_, outputs[o], *dense))
        wrong = "padding is not zero";
    }
    if (wrong.empty()) wrong = check_again(outputs);
    if (wrong.empty() && call_.modes.empty()) wrong = check_in_place(outputs);
    if (wrong.empty() && call_.modes.empty()) wrong = check_rows(outputs);
    if (wrong.empty() && call_.modes.empty() && call_.op->views) wrong = check_views(outputs);
    return wrong;
  }
  std::string name() const { return kernel_ ? kernel_->name() : candidate_.name; }

  bool ran = false;

 private:
  /// How far from where a pool would put it a tensor lies: slices of arrays begin anywhere.
  std::int64_t shift(const Layout& layout) {
    const bool fixed = kernel_->loads_wide() || layout.kind == Layout::Kind::opaque;
    return fixed || !r_.one_in(4) ? 0 : r_.in(1, 15);
  }

  std::vector<Tensor> make_outputs(int poison) {
    std::vector<Tensor> outputs;
    for (std::size_t o = 0; o < out_.size(); ++o) {
      const TensorDesc& desc = call_.outputs[o];
      const bool adds = !call_.modes.empty() && call_.modes[o] == WriteMode::add;
      if (!adds) {
        outputs.push_back(guarded(desc.dtype, desc.shape, out_[o], poison, shift(out_[o])));
      } else if (const auto before = in_layout(t_.before[o], out_[o])) {
        outputs.push_back(moved(*before, shift(out_[o])));
      }
    }
    return outputs;
  }

  std::string compute(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                      int poison) {
    const Status status = run(*kernel_, call_, inputs, outputs, poison);
    if (!status.ok()) return status.to_string();
    for (const auto* group : {&inputs, &outputs}) {
      if (!std::all_of(group->begin(), group->end(), guards_intact)) return "a guard is broken";
    }
    return "";
  }

  /// The same bits in another team, with other garbage around, and inputs are as they were.
  std::string check_again(const std::vector<Tensor>& first) {
    const std::vector<Tensor> outputs = make_outputs(0x3c);
    const int team = call_.team;
    if (!name().starts_with("onednn")) call_.team = int(r_.in(1, 3));
    const std::string wrong = compute(inputs_, outputs, 0);
    call_.team = team;
    if (!wrong.empty()) return wrong;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (!alike(outputs[o], first[o])) return fmt::format("output {}: other bits again", o);
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto before = in_layout(t_.inputs[i], inputs_[i].layout);
      if (!before->same_bits(inputs_[i])) return fmt::format("input {} is changed", i);
    }
    return "";
  }

  std::string check_in_place(const std::vector<Tensor>& apart) {
    for (const auto& [i, o] : call_.op->in_place) {
      const auto in = std::size_t(i), out = std::size_t(o);
      if (in >= inputs_.size() || out >= apart.size() || !r_.one_in(2)) continue;
      const Tensor& source = inputs_[in];
      if (source.shape != apart[out].shape || source.dtype != apart[out].dtype ||
          source.layout != apart[out].layout) {
        continue;
      }
      std::vector<Tensor> inputs = inputs_, outputs = make_outputs(0xff);
      outputs[out] = inputs[in] = moved(source, shift(source.layout));
      const std::string wrong = compute(inputs, outputs, 0x3c);
      if (!wrong.empty()) return wrong;
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (alike(outputs[k], apart[k])) continue;
        return fmt::format("output {}: other bits with input {} in the place of output {}", k, i,
                           o);
      }
    }
    return "";
  }

  /// Views are left alone in one place.
  std::string check_views(const std::vector<Tensor>& apart) {
    OpCall call = call_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) call.inputs[i].layout = inputs_[i].layout;
    for (std::size_t o = 0; o < out_.size(); ++o) call.outputs[o].layout = out_[o];
    for (const View& view : call.op->views(call)) {
      std::vector<Tensor> inputs = inputs_, outputs = make_outputs(0xff);
      Tensor& input = inputs[std::size_t(view.input)];
      Tensor& output = outputs[std::size_t(view.output)];
      const std::size_t bytes = std::min(input.bytes(), output.bytes());
      const bool smaller = input.bytes() < output.bytes();
      const Tensor before = input;
      if (smaller) {
        const base::Buffer place = output.memory.slice(std::size_t(view.output_offset), bytes);
        std::memcpy(place.data(), input.memory.data(), bytes);
        input.memory = place;
      } else {
        input = moved(input, shift(input.layout));
        output.memory = input.memory.slice(std::size_t(view.input_offset), bytes);
      }
      const Status status = run(*kernel_, call_, inputs, outputs, 0x3c);
      if (!status.ok()) return status.to_string();
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (!alike(outputs[k], apart[k])) {
          return fmt::format("output {}: other bits where {} is a view of {}", k, view.output,
                             view.input);
        }
      }
      if (!before.same_bits(input)) return "a view is changed";
    }
    return "";
  }

  /// Some rows alone have the bits that they have in the whole.
  std::string check_rows(const std::vector<Tensor>& whole) {
    std::vector<bool> samples(inputs_.size(), r_.one_in(2));
    if (samples.empty() || !kernel_->keeps_sample_bits()) return "";
    samples.front() = true;
    if (r_.one_in(2)) samples.back() = true;
    const auto dense = [](const auto& t) { return t.layout.is_dense(); };
    if (!keeps_samples(call_, samples) || !std::all_of(whole.begin(), whole.end(), dense) ||
        !std::all_of(inputs_.begin(), inputs_.end(), dense)) {
      return "";
    }
    const std::int64_t all = whole[0].shape[0];
    if (all == 0) return "";
    const std::int64_t begin = r_.in(0, all - 1), rows = r_.in(1, all - begin);
    OpCall part = call_;
    std::vector<Tensor> inputs, outputs;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      inputs.push_back(samples[i] ? rows_of(inputs_[i], begin, rows) : inputs_[i]);
      part.inputs[i] = {inputs[i].dtype, inputs[i].shape, {}, false};
    }
    for (std::size_t o = 0; o < whole.size(); ++o) {
      outputs.push_back(rows_of(whole[o], 0, rows).clone());
      part.outputs[o] = {outputs[o].dtype, outputs[o].shape, {}, false};
      std::memset(outputs[o].memory.data(), 0xff, outputs[o].bytes());
    }
    const auto kernel = candidate_.make_kernel(part);
    if (!kernel.ok() || (*kernel)->name() != kernel_->name()) return "";
    const Status status = run(**kernel, part, inputs, outputs, 0xff);
    if (!status.ok()) return "of a part: " + status.to_string();
    for (std::size_t o = 0; o < whole.size(); ++o) {
      if (alike(outputs[o], rows_of(whole[o], begin, rows))) continue;
      return fmt::format("output {}: rows {} to {} have other bits alone", o, begin, begin + rows);
    }
    return "";
  }

  Random& r_;
  const Trial& t_;
  OpCall call_;
  const KernelDef& candidate_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Tensor> inputs_;
  std::vector<Layout> out_;
};

std::string text_of(const OpCall& call) {
  std::string text = call.op->name;
  for (const auto& [name, value] : call.params.to_attributes()) {
    text += fmt::format(" {}={}", name, value);
  }
  for (const auto* group : {&call.inputs, &call.outputs}) {
    text += group == &call.inputs ? ";" : " ->";
    for (const TensorDesc& t : *group) {
      text += fmt::format(" {}{}{}{}", base::dtype_name(t.dtype), t.shape.to_string(),
                          t.layout.is_dense() ? "" : t.layout.to_string(), t.any_layout ? "?" : "");
    }
  }
  for (const WriteMode mode : call.modes) text += mode == WriteMode::add ? " add" : " write";
  return fmt::format("{}, team {}", text, call.team);
}
using Counts = std::map<std::string, int>;

/// Every kernel of the call's operator, with dense and with drawn layouts.
void check_kernels(Random& r, const Trial& t, Counts& counts, const std::string& origin) {
  for (const bool dense : {true, false}) {
    OpCall call = t.call;
    call.team = int(r.in(1, 2));
    call.winograd = !r.one_in(4);
    const bool free = r.one_in(2);
    for (TensorDesc& input : call.inputs) {
      if (dense) break;
      input.any_layout = free;
      input.layout = draw_layout(r, input.shape);
    }
    for (TensorDesc& output : call.outputs) output.any_layout = !dense;
    if (!dense && call.op->name == "reorder") {
      call.outputs[0] = {call.outputs[0].dtype, call.outputs[0].shape,
                         draw_layout(r, call.outputs[0].shape), false};
    }
    for (const KernelDef& candidate : call.op->kernels) {
      Bench bench(r, t, call, candidate);
      const std::string wrong = bench.check();
      if (bench.ran)
        ++counts[call.op->name + " " + bench.name().substr(0, bench.name().find('(')) +
                 (candidate.on_gpus ? ":gpu" : "")];
      if (wrong.empty()) continue;
      static constexpr std::array kNames = {"plain", "ties", "special", "wide", "tiny"};
      FAIL_CHECK("kernel " << bench.name() << (candidate.on_gpus ? " (of GPUs)" : "") << ": "
                           << wrong << "\n  " << text_of(call) << ", "
                           << kNames[std::size_t(t.values)] << ", " << origin);
    }
  }
}

TEST_CASE("kernels agree on random calls", "[random_calls]") {
  const OpTable table = OpTable::build();
  const Makers makers = all_makers();
  const std::int64_t calls = environment("TROUPE_FUZZ_CALLS", 6);
  const std::int64_t seed = environment("TROUPE_FUZZ_SEED", 1);
  Counts counts;
  for (const OpDef& op : table.all()) {
    const auto maker = makers.find(op.name);
    if (maker == makers.end() || left_out(op)) continue;
    std::int64_t made = 0;
    for (std::int64_t n = 0; made < calls && n < 40 * calls; ++n) {
      const std::uint64_t each =
          base::random_key(std::uint64_t(seed), op.name).value + std::uint64_t(n) * 1'000'003;
      Random r(each);
      const std::string origin = fmt::format("TROUPE_FUZZ_SEED={}, call {}", seed, n);
      INFO(op.name << ", " << origin);
      const auto trial = draw_trial(r, op, maker->second);
      if (!trial.ok()) {
        CHECK(trial.status().code() == Errc::invalid_argument);
        continue;
      }
      ++made;
      check_kernels(r, *trial, counts, origin);
      if (!op.gradient || !base::is_floating(trial->own[0].dtype)) continue;
      Recorder recorder(table, r, *trial);
      const auto gradients = op.gradient(recorder);
      INFO(gradients.status().to_string());
      CHECK((gradients.ok() || gradients.status().code() == Errc::invalid_argument));
      for (const Trial& call : recorder.calls) check_kernels(r, call, counts, origin);
    }
    INFO(op.name);
    CHECK(made > 0);
  }
  std::set<std::string> reached;
  for (const auto& [name, count] : counts) {
    reached.insert(name.substr(0, name.find(' ')));
    if (std::getenv("TROUPE_FUZZ_COUNTS") != nullptr) fmt::print("count {} {}\n", name, count);
  }
  for (const OpDef& op : table.all()) {
    INFO("operator " << op.name);
    if (std::getenv("TROUPE_FUZZ_OP") == nullptr) CHECK(reached.contains(op.name));
  }
}

}  // namespace
}  // namespace troupe::ops
