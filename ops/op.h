// SPDX-License-Identifier: Apache-2.0
// What an operator is: parameters, inputs and outputs, inference of shapes and dtypes, gradient,
// documentation, samples. One operator = one stem `<stem>.cc`, which ends in
// `std::span<const OpDef> ops_<stem>()`. Definitions are immutable; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "ops/kernel.h"
#include "ops/params.h"

namespace troupe::ops {

/// A value of a graph under construction: output `output` of node `node`. Only its maker can read
/// it.
struct Value {
  std::int64_t node = -1;
  int output = 0;
  friend bool operator==(const Value&, const Value&) = default;
};

/// How gradients and rewrites add nodes to a graph without knowing the graph.
class GraphBuilder {
 public:
  virtual ~GraphBuilder() = default;
  /// Adds a node; returns all its outputs. CHECKs that the operator exists and takes these inputs.
  virtual std::vector<Value> add(std::string_view op, std::vector<Value> inputs,
                                 const Attributes& attributes) = 0;
  /// add() for an operator of one output.
  Value add1(std::string_view op, std::vector<Value> inputs, const Attributes& attributes = {});
};

/// What a gradient function may use. Whatever it asks for is kept for the backward pass; nothing
/// else is.
class GradientBuilder : public GraphBuilder {
 public:
  virtual const Params& params() const = 0;
  virtual int input_count() const = 0;
  virtual Value input(int index) = 0;
  virtual Value output(int index) = 0;
  /// Gradient with respect to an output; nullopt when nothing downstream depends on it.
  virtual std::optional<Value> output_gradient(int index) = 0;
  /// False when nobody wants the gradient of this input: then the result's entry is ignored.
  virtual bool wanted(int input_index) const = 0;
};

/// One entry per input: the gradient, or nullopt where there is none (integer input, auxiliary
/// state).
using GradientFunction =
    std::function<base::Result<std::vector<std::optional<Value>>>(GradientBuilder&)>;

/// Completes what it can of `inputs` and `outputs` from what is known, in both directions. Sizes of
/// the vectors are right on entry. An error text names the shapes; callers add operator and node.
using InferShape = std::function<base::Status(const Params&, std::vector<base::Shape>& inputs,
                                              std::vector<base::Shape>& outputs)>;
/// The same for dtypes.
using InferDType =
    std::function<base::Status(const Params&, std::vector<std::optional<base::DType>>& inputs,
                               std::vector<std::optional<base::DType>>& outputs)>;

/// State that training updates beside the weights (batch_norm's running statistics). It is an input
/// of the operator that training forward never reads, and a key of kind `average`.
struct AuxiliaryState {
  int input = 0;         ///< index of the state among the inputs
  int output = 0;        ///< index of the output that holds this step's batch value
  double initial = 0.0;  ///< value before step 0
  std::string momentum;  ///< name of the parameter m in state = m * state + (1 - m) * batch value
  std::string frozen;    ///< name of the parameter that is true where the state stays; empty: none
};

/// A call for the conformance test, the operator benchmark and docs/ops.md.
struct Sample {
  std::string title;
  Attributes attributes;
  std::vector<base::Shape> inputs;
  double low = -1.0, high = 1.0;  ///< inputs are uniform in [low, high)
  /// Inputs (by index) that hold integers in [low, high) given here: labels, indices.
  std::map<int, std::pair<std::int64_t, std::int64_t>> integers;
  bool gradient = true;    ///< compare with finite differences in f64
  bool benchmark = false;  ///< also a row of the operator benchmark
};

/// How the first outputs of a call are computed once more, to the bit, from hidden ones that were
/// kept: by `op`, with those of the call's parameters that it has.
struct Recomputation {
  std::string op;
  /// (input, output): the input of `op` that is this output of the call. The others are the call's
  /// own inputs.
  std::vector<std::pair<int, int>> kept;
};

/// Bytes that an input and an output of a call can have in common, because they hold the same:
/// those of the smaller one, from byte `input_offset` of the input and `output_offset` of the
/// output on.
struct View {
  int input = 0;
  int output = 0;
  std::int64_t input_offset = 0;
  std::int64_t output_offset = 0;
};
/// Those of a call whose layouts are all fixed.
using FindViews = std::function<std::vector<View>(const OpCall&)>;

/// Whether samples stay apart: with some rows (along axis 0) of the inputs that `samples` marks,
/// and the whole of the others, a call gives the same rows of all its outputs. Asked about calls
/// whose marked inputs and outputs have equally many rows.
using KeepsSamples = std::function<bool(const OpCall&, const std::vector<bool>& samples)>;

/// What an operator computes in where a network computes in 16 bits (symbol/precision.h).
enum class MixedPrecision : std::uint8_t {
  wide,       ///< f32: sums over many values, and functions that 16 bits spoil
  as_inputs,  ///< 16 bits where all its floating inputs have them, else f32
  narrow,     ///< 16 bits: products, for which processors have units
};

/// What a call computes for one element, as C++: a term over pointwise_functions.h, in which "$0",
/// "$1" are the elements of the inputs, "#0", "#1" the numbers, and W is the type of all of them.
struct PointwiseTerm {
  std::string text;
  std::vector<double> numbers = {};
};

/// One operator. Names are the field's snake_case terms; `aliases` are MXNet's.
struct OpDef {
  std::string name;
  std::vector<std::string> aliases;  ///< the first one is the name in files for MXNet
  std::string doc;                   ///< Markdown: formula, shapes, where it comes from
  std::vector<ParamDef> params;
  std::vector<IgnoredAttribute> ignored;  ///< of MXNet's operator, without effect here

  /// Input names for these parameters (optional and variadic inputs depend on them).
  std::function<std::vector<std::string>(const Params&)> inputs;
  std::function<std::vector<std::string>(const Params&)> outputs;
  /// The first `visible_outputs` outputs are what composition sees; 0: all.
  int visible_outputs = 0;

  InferShape infer_shape;     ///< empty: all inputs and outputs share one shape
  InferDType infer_dtype;     ///< empty: all inputs and outputs share one floating dtype
  GradientFunction gradient;  ///< empty: not differentiable
  /// Its inputs get no gradient, on purpose: what lies before it is not differentiated through it.
  bool cuts_gradient = false;
  std::vector<AuxiliaryState> auxiliary;
  /// Inputs of which only shape and dtype are used: their values need not be kept or computed for
  /// it. Indices beyond the inputs of a call (variadic operators) mean nothing.
  std::vector<int> shape_only_inputs;
  /// By input: what a parameter there begins at where its variable does not say.
  std::map<int, double> initial;
  /// (input, output) pairs that may share memory when the input is not needed afterwards and both
  /// have the same shape and dtype (a broadcast input does not).
  std::vector<std::pair<int, int>> in_place;
  /// What it need not copy: its kernels leave alone what lies at one address in input and output.
  /// Empty: nothing.
  FindViews views;
  /// Outputs that can be accumulated into (WriteMode::add).
  std::vector<int> accumulates;
  MixedPrecision mixed = MixedPrecision::wide;
  bool is_loss = false;  ///< head gradient is ones; outputs a sum over samples or predictions
  bool assign = false;   ///< its first output may overwrite its first input (optimizers)
  bool random = false;   ///< reads the node's random key and the step
  /// Each output element depends only on the elements of the inputs at its own place (broadcast
  /// inputs: at the place they are broadcast to).
  bool elementwise = false;
  /// Where its inputs have the output's shape, or are 0-d and it broadcasts, fused_pointwise can do
  /// its work by this term.
  /// Nothing: not with these parameters. Empty: never.
  std::function<std::optional<PointwiseTerm>(const Params&)> pointwise;
  KeepsSamples keeps_samples;  ///< empty: where it is elementwise, and only there
  /// relu of all inputs before it gives the same as relu of its output 0 behind it. Empty: never.
  std::function<bool(const Params&, const base::Shape& input, const base::Shape& output)>
      commutes_with_relu;
  /// It has the parameters of an epilogue (nn/epilogue.h): binding moves a sum and a relu that
  /// alone read output 0 into it.
  bool epilogue = false;
  /// Brings weights into another form: a prediction runs it once per version of the weights that
  /// it reads and keeps what it gives.
  bool prepares_weights = false;
  /// The identity of input 0 when that and the output have one shape: binding leaves such a node
  /// out.
  bool identity_if_alike = false;
  /// With these parameters zeros give zeros: kernels may run flat over padding, too.
  /// Empty: never.
  std::function<bool(const Params&)> maps_zero_to_zero;
  /// Rewrites the node for prediction (pass `freeze`): the values that replace its outputs. Hidden
  /// ones may be left out: they do not exist in prediction, and nothing but the predict form of a
  /// node that takes them, which must not ask for them, may stand behind them. Empty: the operator
  /// is the same in prediction.
  std::function<base::Result<std::vector<Value>>(GradientBuilder&)> predict_form;
  /// The boolean parameter that, False, leaves out the hidden outputs; the others keep their bits.
  /// Empty: none does.
  std::string keeps_hidden;
  /// How outputs are computed once more where others are kept; nothing: by the same call.
  std::optional<Recomputation> recomputation;
  /// Multiply-adds count as 2. Empty: one operation per output element.
  std::function<double(const OpCall&)> flops;
  bool multiplies_and_adds = false;  ///< `flops` are multiply-adds: products, convolutions

  std::vector<KernelDef> kernels;  ///< the last is the reference and never declines
  std::vector<Sample> samples;

  int visible_output_count(const Params& p) const;
  const ParamDef* find_param(std::string_view name) const;
};

/// Inference for operators whose inputs and outputs all have one shape.
base::Status infer_same_shape(const Params&, std::vector<base::Shape>& inputs,
                              std::vector<base::Shape>& outputs);
/// Inference for operators whose inputs and outputs all have one dtype (default f32 is the
/// caller's).
base::Status infer_same_dtype(const Params&, std::vector<std::optional<base::DType>>& inputs,
                              std::vector<std::optional<base::DType>>& outputs);
/// The operator's inference (or its default); an error text begins with "[operator] ".
base::Status infer_shapes(const OpDef& op, const Params& params, std::vector<base::Shape>& inputs,
                          std::vector<base::Shape>& outputs);
base::Status infer_dtypes(const OpDef& op, const Params& params,
                          std::vector<std::optional<base::DType>>& inputs,
                          std::vector<std::optional<base::DType>>& outputs);
/// Params::parse for the operator; an error text begins with "[operator] ".
base::Result<Params> parse_params(const OpDef& op, const Attributes& attributes);
/// `attributes` for a call of `inputs` inputs: a variadic operator's missing `num_args` filled in.
Attributes with_num_args(const OpDef& op, Attributes attributes, std::size_t inputs);
/// The call on complete inputs: outputs inferred and dense, modes all write, device cpu:0, team 1.
/// An operator without inputs or dtype parameter gives f32. invalid_argument names a tensor with
/// too many axes or elements, and its dtype.
base::Result<OpCall> make_call(const OpDef& op, Params params, std::vector<TensorDesc> inputs);
/// True when the call's rows of samples can be computed some at a time, see KeepsSamples. Operators
/// that draw or assign cannot.
bool keeps_samples(const OpCall& call, const std::vector<bool>& samples);
/// OpDef::keeps_samples where input 0 has the samples, and the addend of an epilogue.
bool samples_in_data(const OpCall& call, const std::vector<bool>& samples);
/// OpDef::keeps_samples where all inputs have samples, unless the parameter `axis` names axis 0.
KeepsSamples samples_beside(std::string axis);
/// OpDef::maps_zero_to_zero of operators that do so with any parameters.
inline bool always(const Params&) {
  return true;
}
/// OpDef::pointwise of operators that have one term with any parameters.
std::function<std::optional<PointwiseTerm>(const Params&)> pointwise_term(std::string text);
/// A constant list of names as OpDef::inputs or outputs.
std::function<std::vector<std::string>(const Params&)> names(std::vector<std::string> list);

}  // namespace troupe::ops
