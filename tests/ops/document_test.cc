// SPDX-License-Identifier: Apache-2.0
// docs/ops.md is what the table says.
#include "ops/document.h"

#include "base/file.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

TEST_CASE("docs/ops.md is current", "[document]") {
  const auto committed = base::read_text_file(TROUPE_SOURCE_DIR "/docs/ops.md", 1 << 22);
  REQUIRE(committed.ok());
  INFO("renew it: bin/ops_doc > docs/ops.md");
  CHECK((committed.value() == operator_reference(OpTable::build())));
}

}  // namespace
}  // namespace troupe::ops
