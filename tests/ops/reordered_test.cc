// SPDX-License-Identifier: Apache-2.0
// Convolutions of dense tensors that are reordered inside the call. That each of them keeps to the
// reference on small samples is in conformance_test.cc; here, batches in several parts.
#include "ops/support/reordered.h"

#include "tests/ops/cases.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST_CASE("batches are cut into parts that a cache holds", "[reordered]") {
  CHECK(reordered_parts(32, kMiB / 4, 1024) == 1);
  CHECK(reordered_parts(32, kMiB, 1024) == 4);
  CHECK(reordered_parts(1, 64 * kMiB, 1024) == 1);
  CHECK(reordered_parts(6, 64 * kMiB, 1024) == 6);
  // Weights that are read again with each part.
  CHECK(reordered_parts(32, kMiB, 8 * kMiB) == 1);
  // Where nothing divides well, nearly.
  CHECK(reordered_parts(31, kMiB / 2, 1024) == 1);
  CHECK(reordered_parts(31, 64 * kMiB, 1024) == 31);
  CHECK(reordered_parts((std::int64_t{1} << 31) - 1, 4, 1024) == 1);
}

/// The offer of the kernel between reorders, or the reason why it declines.
base::Result<std::unique_ptr<Kernel>> reordered(const OpCall& call) {
  for (const KernelDef& candidate : call.op->kernels) {
    if (candidate.name == "onednn-reordered") return candidate.prepare(call);
  }
  return base::error(base::Errc::not_found, "{} has no such kernel", call.op->name);
}

OpCall dense_call(const OpTable& table, std::string_view name, const Attributes& attributes,
                  const std::vector<Tensor>& inputs) {
  const OpDef& op = table.at(name);
  return make_call(op, parse_params(op, attributes).value(), describe(inputs)).value();
}

/// A kernel's outputs are the reference's; what scratch it takes.
std::size_t compare(const OpTable& table, std::string_view name, const Attributes& attributes,
                    const std::vector<Tensor>& inputs, int team = 1) {
  const DType dtype = inputs[0].dtype;
  INFO(name << " of " << base::dtype_name(dtype) << ", team " << team);
  OpCall call = dense_call(table, name, attributes, inputs);
  call.team = team;
  const auto kernel = reordered(call);
  INFO(kernel.status().to_string());
  REQUIRE(kernel.ok());
  call.reference_only = true;
  const auto reference = prepare(call).value();
  const std::vector<Tensor> got = make_outputs(call), wanted = make_outputs(call);
  run_kernel(**kernel, inputs, got, {.team = team});
  run_kernel(*reference, inputs, wanted, {.team = team});
  for (std::size_t o = 0; o < got.size(); ++o) {
    INFO("output " << o);
    CHECK(distance(got[o], wanted[o]) < tolerance(dtype));
  }
  return (*kernel)->scratch_bytes();
}

Tensor random_of(DType dtype, Shape shape, const char* name) {
  return random_tensor(dtype, std::move(shape), name, -1, 1, true);
}

TEST_CASE("parts of a batch give what the whole gives", "[reordered]") {
  const OpTable table = OpTable::build();
  // Windows of one element take the reference little time. In f32 five parts, of 5 MB each.
  const Attributes attributes = {{"kernel", "(1, 1)"}, {"num_filter", "16"}, {"no_bias", "False"}};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor data = random_of(dtype, {5, 16, 200, 200}, "data");
    const Tensor head = random_of(dtype, {5, 16, 200, 200}, "head");
    const Tensor weight = random_of(dtype, {16, 16, 1, 1}, "weight");
    const Tensor bias = random_of(dtype, {16}, "bias");
    const std::vector<std::pair<const char*, std::vector<Tensor>>> calls = {
        {"convolution", {data, weight, bias}},
        {"convolution_backward_data", {head, weight, data}},
        {"convolution_backward_weights", {head, data}},
        {"deconvolution", {data, weight, bias}},
        {"deconvolution_backward_data", {head, weight, data}},
        {"deconvolution_backward_weights", {data, head}}};
    for (const auto& [name, inputs] : calls) {
      for (const int team : {1, 2}) {
        const std::size_t scratch = compare(table, name, attributes, inputs, team);
        if (dtype == DType::f32) CHECK(scratch < 12 * kMiB);  // one part's tensors, not the batch's
      }
    }
  }
}

TEST_CASE("parts of a batch with groups, few channels and an epilogue", "[reordered]") {
  const OpTable table = OpTable::build();
  const auto of = [](Shape shape, const char* name) {
    return random_of(DType::f32, std::move(shape), name);
  };
  const Tensor wide = of({4, 32, 120, 120}, "wide"), head = of({4, 32, 120, 120}, "head");
  const Attributes depthwise = {{"kernel", "(3, 3)"},
                                {"num_filter", "32"},
                                {"num_group", "32"},
                                {"pad", "(1, 1)"},
                                {"no_bias", "True"}};
  const Tensor taps = of({32, 1, 3, 3}, "taps");
  compare(table, "convolution", depthwise, {wide, taps});
  compare(table, "convolution_backward_data", depthwise, {head, taps, wide});
  compare(table, "convolution_backward_weights", depthwise, {head, wide});
  // Three channels stay as they are: parts of 3 x 119 x 119 numbers begin anywhere.
  const Attributes image = {{"kernel", "(3, 3)"}, {"num_filter", "32"}, {"no_bias", "True"}};
  const Tensor few = of({5, 3, 119, 119}, "few"), out = of({5, 32, 117, 117}, "out");
  compare(table, "convolution", image, {few, of({32, 3, 3, 3}, "weight")});
  compare(table, "convolution_backward_weights", image, {out, few});
  const Attributes sum = {{"kernel", "(1, 1)"},
                          {"num_filter", "32"},
                          {"no_bias", "True"},
                          {"act_type", "relu"},
                          {"with_sum", "True"}};
  compare(table, "convolution", sum, {wide, of({32, 32, 1, 1}, "weight"), head});
}

TEST_CASE("an addend may be the output in every part", "[reordered]") {
  const OpTable table = OpTable::build();
  const Attributes sum = {{"kernel", "(1, 1)"},
                          {"num_filter", "32"},
                          {"no_bias", "True"},
                          {"act_type", "relu"},
                          {"with_sum", "True"}};
  const auto of = [](Shape shape, const char* name) {
    return random_of(DType::f32, std::move(shape), name);
  };
  const Tensor data = of({4, 32, 120, 120}, "data"), weight = of({32, 32, 1, 1}, "weight");
  const Tensor apart = of({4, 32, 120, 120}, "addend"), same = of({4, 32, 120, 120}, "addend");
  const OpCall call = dense_call(table, "convolution", sum, {data, weight, apart});
  const auto kernel = reordered(call).value();
  const std::vector<Tensor> wanted = make_outputs(call);
  run_kernel(*kernel, {data, weight, apart}, wanted, {});
  run_kernel(*kernel, {data, weight, same}, {same}, {});
  CHECK(same.same_bits(wanted[0]));
}

TEST_CASE("calls that have nothing to reorder are declined", "[reordered]") {
  const OpTable table = OpTable::build();
  const auto reason = [](const OpCall& call) { return reordered(call).status().text(); };
  const Attributes attributes = {{"kernel", "(3, 3)"}, {"num_filter", "16"}, {"no_bias", "True"}};
  OpCall call = free_call(table, "convolution", {{2, 16, 8, 8}, {16, 16, 3, 3}}, attributes);
  CHECK(reason(call).find("all are dense") != std::string::npos);
  for (auto* group : {&call.inputs, &call.outputs}) {
    for (TensorDesc& tensor : *group) tensor.any_layout = false;
  }
  CHECK(reordered(call).ok());
  call.modes = {WriteMode::add};
  CHECK(reason(call).find("only writes") != std::string::npos);
  call.modes = {};
  for (auto* group : {&call.inputs, &call.outputs}) {
    for (TensorDesc& tensor : *group) tensor.dtype = DType::f64;
  }
  CHECK(reason(call).find("only f32") != std::string::npos);
  // The gradient of an image's few channels is not put into blocks.
  const Tensor head = random_of(DType::f32, {2, 16, 6, 6}, "head");
  const Tensor weight = random_of(DType::f32, {16, 3, 3, 3}, "weight");
  const Tensor image = random_of(DType::f32, {2, 3, 8, 8}, "image");
  call = dense_call(table, "convolution_backward_data", attributes, {head, weight, image});
  CHECK(reason(call).find("nothing to reorder") != std::string::npos);
}

}  // namespace
}  // namespace troupe::ops
