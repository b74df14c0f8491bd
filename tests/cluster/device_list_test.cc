// SPDX-License-Identifier: Apache-2.0
// Device lists: what they mean, and the words for what they cannot mean.
#include "cluster/device_list.h"

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using Gpus = std::vector<std::uint32_t>;

DeviceList list_of(const std::string& text) {
  const auto list = parse_device_list(text);
  INFO(text << ": " << list.status().text());
  REQUIRE(list.ok());
  return *list;
}

TEST_CASE("a device list says how many slots are on CPUs, and on which GPUs", "[device_list]") {
  CHECK(list_of("cpu:1") == DeviceList{1, false, {}});
  CHECK(list_of("cpu:4096") == DeviceList{4'096, false, {}});
  CHECK(list_of("gpu:all") == DeviceList{0, true, {}});
  CHECK(list_of("gpu:0,2") == DeviceList{0, false, {0, 2}});
  CHECK(list_of("cpu:2,gpu:all") == DeviceList{2, true, {}});
  CHECK(list_of("gpu:all,cpu:2") == DeviceList{2, true, {}});
  CHECK(list_of("gpu:3,1,cpu:2,gpu:0") == DeviceList{2, false, {3, 1, 0}});
  CHECK(list_of("gpu:0,gpu:1") == DeviceList{0, false, {0, 1}});
  CHECK(list_of("gpu:0,0") == DeviceList{0, false, {0, 0}});  // two workers on one GPU
  CHECK(list_of("gpu:63").gpus == Gpus{63});
}

TEST_CASE("a device list knows how many GPUs a machine needs for it", "[device_list]") {
  CHECK(list_of("cpu:2").gpus_needed() == 0);
  CHECK_FALSE(list_of("cpu:2").on_gpus());
  CHECK(list_of("gpu:all").gpus_needed() == 0);
  CHECK(list_of("gpu:all").on_gpus());
  CHECK(list_of("gpu:0,0").gpus_needed() == 1);
  CHECK(list_of("gpu:2,0").gpus_needed() == 3);
  CHECK(list_of("gpu:2,0").on_gpus());
}

TEST_CASE("a device list that means nothing is refused by the item that does not",
          "[device_list]") {
  const auto fault = [](const std::string& text) {
    const auto list = parse_device_list(text);
    CHECK(list.status().code() == base::Errc::invalid_argument);
    return list.status().text();
  };
  const std::string form = "expected cpu:N, gpu:all or gpu:INDEX,INDEX,..., got ";
  CHECK(fault("") == form + "''");
  CHECK(fault("2") == form + "'2'");
  CHECK(fault("tpu:1") == form + "'tpu:1'");
  CHECK(fault("cpu:2,3") == form + "'3'");
  CHECK(fault("gpu:0,cpu:2,1") == form + "'1'");
  CHECK(fault("gpu:0,,1") == form + "''");
  CHECK(fault("gpu:0,") == form + "''");
  CHECK(fault("gpu:0,x") == form + "'x'");
  CHECK(fault("gpu") == form + "'gpu'");
  CHECK(fault("cpu:0") == "'cpu:0' is not from cpu:1 to cpu:4096");
  CHECK(fault("cpu:4097") == "'cpu:4097' is not from cpu:1 to cpu:4096");
  CHECK(fault("cpu:99999999999999999999") ==
        "'cpu:99999999999999999999' is not from cpu:1 to cpu:4096");
  CHECK(fault("cpu:-1") == "'cpu:-1' is not from cpu:1 to cpu:4096");
  CHECK(fault("cpu:1,cpu:2") == "'cpu:2' comes after cpu:1: once, with all slots");
  CHECK(fault("gpu:") == "'' is no GPU: all, or an index from 0 to 63");
  CHECK(fault("gpu:0x1") == "'0x1' is no GPU: all, or an index from 0 to 63");
  CHECK(fault("gpu:0,64") == "'64' is no GPU: all, or an index from 0 to 63");
  CHECK(fault("gpu:4294967295") == "'4294967295' is no GPU: all, or an index from 0 to 63");
  CHECK(fault("gpu:all,0") == "'0': gpu:all stands for all GPUs, without others");
  CHECK(fault("gpu:0,gpu:all") == "'all': gpu:all stands for all GPUs, without others");
  CHECK(fault("gpu:all,gpu:all") == "'all': gpu:all stands for all GPUs, without others");
  std::string many = "gpu:7";
  for (int slot = 0; slot < 64; ++slot) many += ",7";
  CHECK(fault(many) == "GPU 7: more than 64 GPU slots");
}

}  // namespace
}  // namespace troupe::cluster
