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

/// Five samples of 5 MB: five parts. Windows of one element, which take the reference little time.
const Attributes kPointwise = {{"kernel", "(1, 1)"}, {"num_filter", "16"}, {"no_bias", "False"}};

TEST_CASE("parts of a batch give what the whole gives", "[reordered]") {
  const OpTable table = OpTable::build();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto make = [&](Shape shape, const char* name) {
      return random_tensor(dtype, shape, name, -1, 1, true);
    };
    const Tensor data = make({5, 16, 200, 200}, "data"), head = make({5, 16, 200, 200}, "head");
    const Tensor weight = make({16, 16, 1, 1}, "weight"), bias = make({16}, "bias");
    const std::vector<std::pair<const char*, std::vector<Tensor>>> calls = {
        {"convolution", {data, weight, bias}},
        {"convolution_backward_data", {head, weight, data}},
        {"convolution_backward_weights", {head, data}},
        {"deconvolution", {data, weight, bias}},
        {"deconvolution_backward_data", {head, weight, data}},
        {"deconvolution_backward_weights", {data, head}}};
    for (const auto& [name, inputs] : calls) {
      INFO(name << " of " << base::dtype_name(dtype));
      OpCall call = dense_call(table, name, kPointwise, inputs);
      const auto kernel = reordered(call);
      REQUIRE(kernel.ok());
      // One part's tensors, not the batch's.
      CHECK((*kernel)->scratch_bytes() < 16 * kMiB);
      call.reference_only = true;
      const auto reference = prepare(call).value();
      const std::vector<Tensor> got = make_outputs(call), wanted = make_outputs(call);
      run_kernel(**kernel, inputs, got, {});
      run_kernel(*reference, inputs, wanted, {});
      for (std::size_t o = 0; o < got.size(); ++o) {
        CHECK(distance(got[o], wanted[o]) < tolerance(dtype));
      }
    }
  }
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
}

}  // namespace
}  // namespace troupe::ops
