// SPDX-License-Identifier: Apache-2.0
// The order in which sources are asked, and which of their errors is told.
#include "store/piece_sources.h"

#include <fmt/format.h>

#include "schemas/manifest.h"

namespace troupe::store {

using base::Errc;

namespace {

int hope(Errc code) {
  if (code == Errc::not_found) return 0;
  return schemas::nothing_whole(code) ? 1 : 2;
}

}  // namespace

bool leaves_more_hope(Errc one, Errc other) {
  return hope(one) > hope(other);
}

base::Result<schemas::FilePiece> PieceSources::ask(const std::string& file, std::uint64_t offset,
                                                   std::uint64_t bytes, const Check& check) {
  base::Status why = base::error(Errc::not_found, "{}: nobody has it", file);
  for (const std::size_t source : order(file)) {
    auto piece = sources_[source](file, offset, bytes);
    base::Status said = piece.ok() && check ? check(*piece) : piece.status();
    note(file, source, said.code());
    if (said.ok()) return piece;
    if (leaves_more_hope(said.code(), why.code())) why = std::move(said);
  }
  return why;
}

std::vector<std::size_t> PieceSources::order(const std::string& file) {
  const base::MutexLock lock(mutex_);
  const auto known = has_.find(file);
  std::vector<std::vector<std::size_t>> ranks(4);
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    const bool has = known != has_.end() && known->second == source;
    const std::size_t rank = has                               ? 0
                             : failed_.contains(source)        ? 3
                             : wrong_.contains({file, source}) ? 2
                                                               : 1;
    ranks[rank].push_back(source);
  }
  std::vector<std::size_t> order;
  for (const auto& rank : ranks) order.insert(order.end(), rank.begin(), rank.end());
  return order;
}

void PieceSources::note(const std::string& file, std::size_t source, Errc code) {
  const base::MutexLock lock(mutex_);
  if (code == Errc::ok) {
    has_[file] = source;
    failed_.erase(source);
    return;
  }
  const auto known = has_.find(file);
  if (known != has_.end() && known->second == source) has_.erase(known);
  if (hope(code) == 1) wrong_.emplace(file, source);
  if (hope(code) == 2) failed_.insert(source);
}

}  // namespace troupe::store
