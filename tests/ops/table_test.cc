// SPDX-License-Identifier: Apache-2.0
// The table of operators: definitions are complete, names unique, errors helpful.
#include "ops/table.h"

#include <set>

#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

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

TEST_CASE("the numeric class names what bits depend on", "[numerics]") {
  const base::NumericClass a = numeric_class(2);
  CHECK(a == numeric_class(2));
  CHECK_FALSE(a == numeric_class(1));
  CHECK(a.onednn.find('.') != std::string::npos);
  CHECK(a.libm.find('.') != std::string::npos);
  CHECK_FALSE(a.build.empty());
  CHECK_FALSE(a.device_model.empty());
  CHECK(cap_instruction_set("avx9").code() == base::Errc::invalid_argument);
  CHECK(cap_instruction_set("native").ok());
}

}  // namespace
}  // namespace troupe::ops
