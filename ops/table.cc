// SPDX-License-Identifier: Apache-2.0
// Joins stems and back-ends to one table and looks operators up.
#include "ops/table.h"

#include <algorithm>
#include <numeric>

#include "ops/table_sources.h"

namespace troupe::ops {
namespace {

/// Number of single-character edits between two names.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

void check_definition(const OpDef& op) {
  const std::string who = "[" + op.name + "] ";
  TROUPE_CHECK(!op.name.empty() && op.inputs && op.outputs, who + "definition is incomplete");
  TROUPE_CHECK(!op.kernels.empty() && op.kernels.back().name == "reference",
               who + "the last kernel must be the reference");
}

}  // namespace

OpTable::Definitions OpTable::join_definitions() {
  Definitions table;
  for (const std::span<const OpDef> stem : stem_operators()) {
    table.ops.insert(table.ops.end(), stem.begin(), stem.end());
  }
  for (std::size_t i = 0; i < table.ops.size(); ++i) {
    const OpDef& op = table.ops[i];
    check_definition(op);
    TROUPE_CHECK(table.index.emplace(op.name, i).second, "two operators named " + op.name);
    for (const std::string& alias : op.aliases) {
      TROUPE_CHECK(table.index.emplace(alias, i).second, "two operators named " + alias);
    }
  }
  for (const std::span<const BackendKernel> kernels : stem_backend_kernels()) {
    for (const BackendKernel& kernel : kernels) {
      const auto it = table.index.find(kernel.op);
      TROUPE_CHECK(it != table.index.end(), "kernel for unknown operator " + kernel.op);
      std::vector<KernelDef>& list = table.ops[it->second].kernels;
      list.insert(list.end() - 1, kernel.kernel);
    }
  }
  return table;
}

OpTable OpTable::build() {
  static const Definitions definitions = join_definitions();
  return OpTable(definitions);
}

base::Result<const OpDef*> OpTable::find(std::string_view name) const {
  const auto it = definitions_->index.find(name);
  if (it != definitions_->index.end()) return &definitions_->ops[it->second];
  const auto closest = std::min_element(
      definitions_->index.begin(), definitions_->index.end(), [name](const auto& a, const auto& b) {
        return edit_distance(name, a.first) < edit_distance(name, b.first);
      });
  return base::error(base::Errc::not_found, "unknown operator '{}' (did you mean '{}'?)", name,
                     closest == definitions_->index.end() ? "" : closest->first);
}

const OpDef& OpTable::at(std::string_view name) const {
  const auto it = definitions_->index.find(name);
  TROUPE_CHECK(it != definitions_->index.end(), "unknown operator '" + std::string(name) + "'");
  return definitions_->ops[it->second];
}

}  // namespace troupe::ops
