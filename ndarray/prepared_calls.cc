// SPDX-License-Identifier: Apache-2.0
// Requests as keys, and a list of entries in order of use.
#include "ndarray/prepared_calls.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/mix_hash.h"

namespace troupe::ndarray {

std::size_t PreparedCalls::Hash::operator()(const CallRequest& request) const {
  std::size_t hash = std::hash<const void*>{}(request.op);
  for (const auto& [name, value] : *request.attributes) {
    base::mix_hash(hash, std::hash<std::string>{}(name));
    base::mix_hash(hash, std::hash<std::string>{}(value));
  }
  for (const Operand& input : request.inputs) {
    base::mix_hash(hash, static_cast<std::size_t>(input.dtype));
    for (const std::int64_t extent : input.shape.dims()) {
      base::mix_hash(hash, static_cast<std::size_t>(extent));
    }
  }
  return hash;
}

bool PreparedCalls::Equal::operator()(const CallRequest& a, const CallRequest& b) const {
  return a.op == b.op && a.device == b.device && a.team == b.team &&
         a.reference_only == b.reference_only && a.adds == b.adds &&
         std::ranges::equal(a.inputs, b.inputs) && *a.attributes == *b.attributes;
}

std::shared_ptr<const PreparedCall> PreparedCalls::find(const CallRequest& request) {
  const base::MutexLock lock(mutex_);
  const auto it = index_.find(request);
  if (it == index_.end()) return nullptr;
  if (it->second != entries_.begin()) entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->call;
}

void PreparedCalls::keep(const CallRequest& request, std::shared_ptr<const PreparedCall> call) {
  const base::MutexLock lock(mutex_);
  if (const auto it = index_.find(request); it != index_.end()) {  // two prepared it at once
    it->second->call = std::move(call);
    return;
  }
  entries_.push_front({*request.attributes,
                       {request.inputs.begin(), request.inputs.end()},
                       request,
                       std::move(call)});
  Entry& entry = entries_.front();
  entry.request.attributes = &entry.attributes;
  entry.request.inputs = entry.inputs;
  index_.emplace(entry.request, entries_.begin());
  if (entries_.size() <= calls_max_) return;
  index_.erase(entries_.back().request);
  entries_.pop_back();
}

}  // namespace troupe::ndarray
