// SPDX-License-Identifier: Apache-2.0
// What is free of an agent's GPUs, and what its offer must be like.
#include "control/gpu_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"

namespace troupe::control {
namespace {

/// Why a machine cannot have this GPU; empty: it can.
std::string fault_of(const schemas::GpuOffer& gpu) {
  if (gpu.index >= schemas::kGpusMax) {
    return fmt::format("indices are from 0 to {}", schemas::kGpusMax - 1);
  }
  if (gpu.memory_bytes == 0) return "it has no memory";
  for (const auto& [what, word] : {std::pair("name", &gpu.name), std::pair("uuid", &gpu.uuid)}) {
    if (!base::has_control(*word)) continue;
    return fmt::format("its {} '{}' has a control character", what, base::printable(*word));
  }
  return "";
}

}  // namespace

std::string offer_text(std::uint32_t slots, std::size_t gpus) {
  std::string text;
  if (slots > 0 || gpus == 0) text = base::format_counted(slots, "slot");
  if (gpus > 0) text += (text.empty() ? "" : " and ") + base::format_counted(gpus, "GPU");
  return text;
}

std::string lost_text(const std::vector<schemas::LostGpu>& lost) {
  std::string text;
  for (const schemas::LostGpu& gpu : lost) {
    text += fmt::format("{}GPU {}: {}", text.empty() ? "" : "; ", gpu.index, gpu.why);
  }
  return text;
}

base::Status check_gpus(const std::string& agent, const std::vector<schemas::GpuOffer>& gpus) {
  if (gpus.size() > schemas::kGpusMax) {
    return base::error(base::Errc::invalid_argument,
                       "agent '{}' offers {} GPU slots; the limit is {}", agent, gpus.size(),
                       schemas::kGpusMax);
  }
  // Waiting jobs are compared with each model, so nobody invents many.
  constexpr std::size_t kModelsMax = 8;
  std::set<std::string_view> models;
  for (const schemas::GpuOffer& gpu : gpus) models.insert(gpu.name);
  if (models.size() > kModelsMax) {
    return base::error(base::Errc::invalid_argument,
                       "agent '{}' offers GPUs of {} models; the limit is {}", agent, models.size(),
                       kModelsMax);
  }
  std::map<std::uint32_t, const schemas::GpuOffer*> known;
  for (const schemas::GpuOffer& gpu : gpus) {
    std::string fault = fault_of(gpu);
    const auto [first, added] = known.emplace(gpu.index, &gpu);
    if (fault.empty() && !added && gpu != *first->second) fault = "it is described in two ways";
    if (fault.empty()) continue;
    return base::error(base::Errc::invalid_argument, "agent '{}' offers GPU {}: {}", agent,
                       gpu.index, fault);
  }
  return {};
}

GpuSlots::GpuSlots(std::vector<schemas::GpuOffer> gpus)
    : gpus_(std::move(gpus)), used_(gpus_.size()) {}

std::uint32_t GpuSlots::used() const {
  return static_cast<std::uint32_t>(std::count(used_.begin(), used_.end(), true));
}

std::uint32_t GpuSlots::lost_unused() const {
  std::uint32_t count = 0;
  for (std::size_t position = 0; position < gpus_.size(); ++position) {
    if (!used_[position] && is_lost(gpus_[position].index)) ++count;
  }
  return count;
}

std::vector<schemas::GpuOffer> GpuSlots::in_service() const {
  std::vector<schemas::GpuOffer> in_service;
  for (const schemas::GpuOffer& gpu : gpus_) {
    if (!is_lost(gpu.index)) in_service.push_back(gpu);
  }
  return in_service;
}

bool GpuSlots::is_lost(std::uint32_t index) const {
  return std::any_of(lost_.begin(), lost_.end(),
                     [&](const schemas::LostGpu& gpu) { return gpu.index == index; });
}

std::vector<FreeGpu> GpuSlots::free() const {
  std::vector<FreeGpu> free;
  for (std::uint32_t position = 0; position < gpus_.size(); ++position) {
    const schemas::GpuOffer& gpu = gpus_[position];
    if (used_[position] || is_lost(gpu.index)) continue;
    free.push_back({{position, gpu.index}, gpu.memory_bytes, gpu.name});
  }
  return free;
}

void GpuSlots::take(const GpuPlace& place) {
  TROUPE_CHECK(place.position < gpus_.size(), "a rank's GPU is one of its agent's");
  TROUPE_CHECK(!used_[place.position], "a GPU slot is one rank's");
  used_[place.position] = true;
}

void GpuSlots::give_back(const GpuPlace& place) {
  TROUPE_CHECK(place.position < gpus_.size(), "a rank's GPU is one of its agent's");
  TROUPE_CHECK(used_[place.position], "only what was taken is given back");
  used_[place.position] = false;
}

bool GpuSlots::lose(const std::vector<schemas::LostGpu>& lost) {
  std::map<std::uint32_t, std::string> words;
  for (const schemas::LostGpu& gpu : lost) {
    const bool own = std::any_of(gpus_.begin(), gpus_.end(), [&](const schemas::GpuOffer& offer) {
      return offer.index == gpu.index;
    });
    if (!own) continue;
    words.emplace(gpu.index, base::shortened(base::printable(gpu.why), schemas::kGpuTextBytesMax));
  }
  std::vector<schemas::LostGpu> now;
  for (auto& [index, why] : words) now.push_back({index, std::move(why)});
  const bool changed = now != lost_;
  lost_ = std::move(now);
  return changed;
}

}  // namespace troupe::control
