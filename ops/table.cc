// SPDX-License-Identifier: Apache-2.0
// Joins stems and back-ends to one table and looks operators up.
#include "ops/table.h"

#include <algorithm>

#include "base/suggest.h"
#include "base/text.h"
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
  std::vector<std::string> known;
  for (const auto& [each, unused] : definitions_->index) known.emplace_back(each);
  std::ranges::sort(known);  // of names as near as each other the first is suggested
  return base::error(base::Errc::not_found, "unknown operator '{}'{}",
                     base::shortened(name, base::kQuotedBytesMax), base::did_you_mean(name, known));
}

const OpDef& OpTable::at(std::string_view name) const {
  const auto it = definitions_->index.find(name);
  TROUPE_CHECK(it != definitions_->index.end(), "unknown operator '" + std::string(name) + "'");
  return definitions_->ops[it->second];
}

}  // namespace troupe::ops
