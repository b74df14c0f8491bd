// SPDX-License-Identifier: Apache-2.0
// The table of XIDs, and that the alert waits for those that are a device's own.
#include "gpu/xid_meaning.h"

#include <filesystem>
#include <string>

#include "base/file.h"
#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

TEST_CASE("XIDs are in order, and have a sentence", "[xid]") {
  std::uint32_t before = 0;
  for (const XidMeaning& meaning : xid_meanings()) {
    INFO(meaning.xid);
    CHECK(meaning.xid > before);
    CHECK(meaning.text.size() > 20);
    CHECK_FALSE(meaning.text.ends_with('.'));
    CHECK(find_xid(meaning.xid) == &meaning);
    before = meaning.xid;
  }
  CHECK(find_xid(0) == nullptr);
  CHECK(find_xid(999) == nullptr);
}

TEST_CASE("what programs do wrong is no error of a device", "[xid]") {
  for (const std::uint32_t xid : {13, 31, 43, 45}) CHECK_FALSE(find_xid(xid)->of_device);
  for (const std::uint32_t xid : {48, 79, 95, 119}) CHECK(find_xid(xid)->of_device);
}

TEST_CASE("the alert is about the errors of devices", "[xid]") {
  std::string wanted;
  for (const XidMeaning& meaning : xid_meanings()) {
    if (!meaning.of_device) continue;
    wanted += (wanted.empty() ? "" : "|") + std::to_string(meaning.xid);
  }
  const std::filesystem::path rules =
      std::filesystem::path(TROUPE_SOURCE_DIR) / "monitoring/alerts.yml";
  CHECK_THAT(base::read_text_file(rules, 1 << 20).value(),
             Catch::Contains("troupe_device_xid_errors_total{xid=~\"" + wanted + "\"}"));
}

}  // namespace
}  // namespace troupe::gpu
