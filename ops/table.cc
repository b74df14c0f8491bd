// SPDX-License-Identifier: Apache-2.0
// Joins stems and back-ends to one table and looks operators up.
#include "ops/table.h"

#include "base/suggest.h"
#include "ops/table_sources.h"

namespace troupe::ops {
namespace {

void check_definition(const OpDef& op) {
  const std::string who = "[" + op.name + "] ";
  TROUPE_CHECK(!op.name.empty() && op.inputs && op.outputs, who + "definition is incomplete");
  TROUPE_CHECK(!op.kernels.empty() && op.kernels.back().name == "reference",
               who + "the last kernel must be the reference");
}

}  // namespace

OpTable OpTable::build() {
  OpTable table;
  for (const std::span<const OpDef> stem : stem_operators()) {
    table.ops_.insert(table.ops_.end(), stem.begin(), stem.end());
  }
  for (std::size_t i = 0; i < table.ops_.size(); ++i) {
    const OpDef& op = table.ops_[i];
    check_definition(op);
    TROUPE_CHECK(table.index_.emplace(op.name, i).second, "two operators named " + op.name);
    for (const std::string& alias : op.aliases) {
      TROUPE_CHECK(table.index_.emplace(alias, i).second, "two operators named " + alias);
    }
  }
  for (const std::span<const BackendKernel> kernels : stem_backend_kernels()) {
    for (const BackendKernel& kernel : kernels) {
      const auto it = table.index_.find(kernel.op);
      TROUPE_CHECK(it != table.index_.end(), "kernel for unknown operator " + kernel.op);
      std::vector<KernelDef>& list = table.ops_[it->second].kernels;
      list.insert(list.end() - 1, kernel.kernel);
    }
  }
  return table;
}

base::Result<const OpDef*> OpTable::find(std::string_view name) const {
  const auto it = index_.find(name);
  if (it != index_.end()) return &ops_[it->second];
  std::vector<std::string> known;
  for (const auto& [each, unused] : index_) known.push_back(each);
  return base::error(base::Errc::not_found, "unknown operator '{}'{}", name,
                     base::did_you_mean(name, known));
}

const OpDef& OpTable::at(std::string_view name) const {
  const auto it = index_.find(name);
  TROUPE_CHECK(it != index_.end(), "unknown operator '" + std::string(name) + "'");
  return ops_[it->second];
}

}  // namespace troupe::ops
