// SPDX-License-Identifier: Apache-2.0
// Inference of every operator on random attributes and shapes, most of which nobody means: an
// answer or invalid_argument, never a crash. The environment is that of random_calls_test.cc.
#include "tests/ops/cases.h"
#include "tests/ops/random_calls.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary
using base::Errc;
using base::Status;

/// A value of the parameter, most likely one that no caller means.
std::string odd_value(Random& r, const ParamDef& param) {
  const auto integer = [&r] {
    return r.text({"0", "1", "1", "2", "2", "3", "-1", "-2", "5", "1000003", "2147483647",
                   "2147483648", "4611686018427387904", "9223372036854775807",
                   "-9223372036854775808"});
  };
  switch (param.type) {
    case ParamType::boolean:
      return r.boolean();
    case ParamType::integer:
      return integer();
    case ParamType::real:
      return r.text({"0", "1", "-1", "nan", "inf", "-inf", "1e308", "1e-320", "0.5"});
    case ParamType::dtype:
      return r.text({"f32", "f16", "i8", "bool", "i64", "float64", "nothing"});
    case ParamType::shape:
    case ParamType::text:
      break;
  }
  if (!param.choices.empty()) {
    return param.choices[std::size_t(r.in(0, std::int64_t(param.choices.size()) - 1))];
  }
  if (param.name == "steps")
    return r.text({"exp 0", "exp 9", "add 0 1; exp 2", "", ";", "add_n 0"});
  std::string text;
  const auto count = r.one_in(3) ? 2 : r.in(0, 10);
  for (std::int64_t i = 0; i < count; ++i) text += integer() + ",";
  return "(" + text + ")";
}

Shape odd_shape(Random& r, bool complete) {
  if (!complete && r.one_in(4)) return Shape::unknown();
  Shape shape;
  const auto rank = r.one_in(10) ? r.in(0, 9) : r.in(0, 5);
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    std::int64_t extent = r.of<std::int64_t>({0, 1, 1, 2, 3, 4, 6, 8});
    if (r.one_in(8)) extent = r.of<std::int64_t>({1 << 20, std::int64_t{1} << 40, INT64_MAX});
    if (r.one_in(complete ? 100 : 5))
      extent = complete ? r.of<std::int64_t>({-1, -7, INT64_MIN}) : -1;
    shape.push_back(extent);
  }
  return shape;
}

/// One call of the operator in words, and whether all was answered.
void ask(Random& r, const OpDef& op) {
  const auto answers = [](const Status& status) {
    INFO(status.to_string());
    CHECK((status.ok() || status.code() == Errc::invalid_argument));
  };
  Attributes attributes;
  for (const ParamDef& param : op.params) {
    if (!param.initial || r.one_in(3)) attributes[param.name] = odd_value(r, param);
  }
  for (const char* number : {"num_args", "num_outputs", "num_weights"}) {
    if (op.find_param(number) != nullptr) attributes[number] = std::to_string(r.in(1, 4));
  }
  std::string text;
  for (const auto& [name, value] : attributes) text += fmt::format(" {}={}", name, value);
  const auto params = parse_params(op, attributes);
  INFO(op.name << text);
  answers(params.status());
  if (!params.ok()) return;
  std::vector<Shape> in, out(op.outputs(*params).size(), Shape::unknown());
  std::vector<TensorDesc> descs(op.inputs(*params).size());
  const Shape common = odd_shape(r, true);
  const DType dtype = draw_dtype(r);
  bool complete = true;
  for (TensorDesc& desc : descs) {
    const bool alike = r.one_in(2);
    desc.dtype = r.one_in(5) ? draw_dtype(r) : dtype;
    desc.shape = alike ? common : odd_shape(r, true);
    complete = complete && desc.shape.complete();
    const Shape partial = alike ? common : odd_shape(r, false);
    in.push_back(base::check_shape(partial).ok() ? partial : Shape::unknown());
    text += fmt::format(" {} {}", base::dtype_name(desc.dtype), desc.shape.to_string());
  }
  for (Shape& shape : out) {
    if (r.one_in(3)) shape = odd_shape(r, false);
    if (!base::check_shape(shape).ok()) shape = Shape::unknown();
  }
  INFO(op.name << text);
  answers(infer_shapes(op, *params, in, out));
  const auto call = make_call(op, *params, descs);
  answers(call.status());
  // Kernels of these two make tables of places that are as long as the tensor's axes.
  const bool tables = op.name == "dropout" || op.name == "reorder";
  if (!call.ok() || !complete || tables) return;
  const auto offered = offers(*call, nullptr, {.by_choice = true});
  CHECK((offered.ok() || offered.status().code() == Errc::unimplemented));
}

TEST_CASE("inference answers whatever it is asked", "[random_calls]") {
  const OpTable table = OpTable::build();
  const std::int64_t calls = environment("TROUPE_FUZZ_CALLS", 6) * 50;
  const std::int64_t seed = environment("TROUPE_FUZZ_SEED", 1);
  for (const OpDef& op : table.all()) {
    for (std::int64_t n = 0; n < calls && !left_out(op); ++n) {
      INFO("TROUPE_FUZZ_SEED=" << seed << ", call " << n);
      Random r(base::random_key(std::uint64_t(seed), op.name).value + std::uint64_t(n));
      ask(r, op);
    }
  }
}

}  // namespace
}  // namespace troupe::ops
