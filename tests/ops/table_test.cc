// SPDX-License-Identifier: Apache-2.0
// The table of operators: definitions are complete, names unique, errors helpful.
#include "ops/table.h"

#include <algorithm>
#include <array>
#include <string>

#include "ops/numerics.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

/// A call on f32 tensors of these shapes.
OpCall call_on(const OpTable& table, const std::string& op, const base::Device& device,
               const std::vector<base::Shape>& shapes) {
  std::vector<TensorDesc> inputs;
  for (const base::Shape& shape : shapes) inputs.push_back({base::DType::f32, shape, {}, false});
  OpCall call = make_call(table.at(op), parse_params(table.at(op), {}).value(), inputs).value();
  call.device = device;
  return call;
}

TEST_CASE("every operator is documented and has samples", "[table]") {
  const OpTable table = OpTable::build();
  REQUIRE_FALSE(table.all().empty());
  for (const OpDef& op : table.all()) {
    INFO(op.name);
    CHECK_FALSE(op.doc.empty());
    CHECK_FALSE(op.samples.empty());
    for (const ParamDef& param : op.params) {
      INFO(param.name);
      CHECK_FALSE(param.doc.empty());
    }
    CHECK(op.kernels.back().name == "reference");
    CHECK(table.at(op.name).name == op.name);
    for (const std::string& alias : op.aliases) CHECK(table.at(alias).name == op.name);
  }
}

TEST_CASE("an unknown operator's error names one that may be meant", "[table]") {
  const OpTable table = OpTable::build();
  const auto missing = table.find("exq");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.status().code() == base::Errc::not_found);
  CHECK(missing.status().text() == "unknown operator 'exq'; did you mean 'exp'?");
  CHECK(table.find("Convolutoin").status().text() ==
        "unknown operator 'Convolutoin'; did you mean 'Convolution'?");
  // Nothing is near these.
  for (const char* name : {"relu", "BilinearSampler", ""}) {
    CHECK(table.find(name).status().text() == fmt::format("unknown operator '{}'", name));
  }
}

TEST_CASE("every operator has a kernel for GPUs", "[table]") {
  const OpTable table = OpTable::build();
  for (const OpDef& op : table.all()) {
    INFO(op.name);
    CHECK(std::any_of(op.kernels.begin(), op.kernels.end(),
                      [](const KernelDef& kernel) { return kernel.on_gpus; }));
  }
}

TEST_CASE("a GPU's calls get kernels for GPUs, and only those", "[table]") {
  const OpTable table = OpTable::build();
  for (const auto kind :
       {base::DeviceKind::cpu, base::DeviceKind::delayed, base::DeviceKind::cuda}) {
    const auto offered = offers(call_on(table, "add", {kind, 0}, {{3}, {3}}));
    REQUIRE(offered.ok());
    for (const Offer& offer : *offered) {
      CHECK(offer.maker->on_gpus == (kind == base::DeviceKind::cuda));
    }
  }
  OpCall call = call_on(table, "softmax", {base::DeviceKind::cuda, 1}, {{2, 3}});
  OpDef plain = *call.op;
  std::erase_if(plain.kernels, [](const KernelDef& kernel) { return kernel.on_gpus; });
  call.op = &plain;
  const base::Status none = prepare(call).status();
  CHECK(none.code() == base::Errc::unimplemented);
  CHECK(none.text() == "[softmax] no kernel takes this call on cuda:1");
}

TEST_CASE("the numeric class names what bits depend on", "[numerics]") {
  const base::NumericClass a = numeric_class(2);
  CHECK(a == numeric_class(2));
  CHECK_FALSE(a == numeric_class(1));
  CHECK(a.onednn.find('.') != std::string::npos);
  CHECK(a.libm.find('.') != std::string::npos);
  CHECK_FALSE(a.build.empty());
  CHECK_FALSE(a.device_model.empty());
  CHECK(a == numeric_class(2, std::array{base::Device{}}));
  const std::array far = {base::Device{base::DeviceKind::cuda, 63}, base::Device{}};
  const base::NumericClass b = numeric_class(2, far);
  CHECK_FALSE(a == b);
  CHECK_THAT(b.device_model,
             Catch::StartsWith(a.device_model + " with ") && Catch::Contains("cuda:63"));
  CHECK(cap_instruction_set("avx9").code() == base::Errc::invalid_argument);
  CHECK(cap_instruction_set("native").ok());
}

}  // namespace
}  // namespace troupe::ops
