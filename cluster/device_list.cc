// SPDX-License-Identifier: Apache-2.0
// Reading of device lists.
#include "cluster/device_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "control/rank_placement.h"
#include "schemas/offer_messages.h"

namespace troupe::cluster {
namespace {

using base::Errc;
using base::Result;
using base::Status;

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, number);
  return code == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

Status add_cpus(std::string_view number, DeviceList& list) {
  const auto slots = number_of(number);
  if (!slots || *slots < 1 || *slots > control::kSlotsMax) {
    return base::error(Errc::invalid_argument, "'cpu:{}' is not from cpu:1 to cpu:{}", number,
                       control::kSlotsMax);
  }
  if (list.cpu_slots != 0) {
    return base::error(Errc::invalid_argument, "'cpu:{}' comes after cpu:{}: once, with all slots",
                       number, list.cpu_slots);
  }
  list.cpu_slots = *slots;
  return {};
}

Status add_gpu(std::string_view item, DeviceList& list) {
  const bool all = item == "all";
  if (list.all_gpus || (all && !list.gpus.empty())) {
    return base::error(Errc::invalid_argument, "'{}': gpu:all stands for all GPUs, without others",
                       item);
  }
  list.all_gpus = all;
  if (all) return {};
  const auto index = number_of(item);
  if (!index || *index >= schemas::kGpusMax) {
    return base::error(Errc::invalid_argument, "'{}' is no GPU: all, or an index from 0 to {}",
                       item, schemas::kGpusMax - 1);
  }
  if (list.gpus.size() == schemas::kGpusMax) {
    return base::error(Errc::invalid_argument, "GPU {}: more than {} GPU slots", *index,
                       schemas::kGpusMax);
  }
  list.gpus.push_back(*index);
  return {};
}

}  // namespace

std::uint32_t DeviceList::gpus_needed() const {
  return gpus.empty() ? 0 : *std::max_element(gpus.begin(), gpus.end()) + 1;
}

Result<DeviceList> parse_device_list(std::string_view text) {
  constexpr std::string_view kCpu = "cpu:", kGpu = "gpu:";
  DeviceList list;
  bool gpus = false;  // the item before this one was a GPU
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    begin = end + 1;
    if (item.starts_with(kCpu)) {
      gpus = false;
      TROUPE_TRY(add_cpus(item.substr(kCpu.size()), list));
    } else if (item.starts_with(kGpu) || (gpus && number_of(item))) {
      gpus = true;
      TROUPE_TRY(add_gpu(item.starts_with(kGpu) ? item.substr(kGpu.size()) : item, list));
    } else {
      return base::error(Errc::invalid_argument, "expected {}, got '{}'", kDeviceListForm, item);
    }
  }
  return list;
}

}  // namespace troupe::cluster
