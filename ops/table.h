// SPDX-License-Identifier: Apache-2.0
// The table of all operators. CMake lists the stems of ops/ and writes the table's source, so there
// are no registration macros and no static constructors. Any thread reads it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/numeric_class.h"
#include "ops/op.h"

namespace troupe::ops {

/// Kernels that a back-end file offers for one operator; `<stem>.onednn.cc` ends in
/// `std::span<const BackendKernel> kernels_<stem>_onednn()`.
struct BackendKernel {
  std::string op;
  KernelDef kernel;
};

/// All operators by name and alias. A handle: the definitions are made once and last as long as the
/// process, so symbols and kernels may outlive the table that they were made with.
class OpTable {
 public:
  /// The operators of this build. CHECKs that names and aliases are unique and references exist.
  static OpTable build();

  /// By name or alias; not_found suggests a known operator whose name is near.
  base::Result<const OpDef*> find(std::string_view name) const;
  /// find() for names that code spells out; CHECKs.
  const OpDef& at(std::string_view name) const;
  std::span<const OpDef> all() const {
    return {definitions_->ops.data(), definitions_->ops.size()};
  }

 private:
  struct Definitions {
    std::vector<OpDef> ops;
    std::unordered_map<std::string_view, std::size_t> index;  // names and aliases of ops
  };
  explicit OpTable(const Definitions& definitions) : definitions_(&definitions) {}
  static Definitions join_definitions();

  const Definitions* definitions_;
};

/// Caps oneDNN and Highway ("avx2", "avx512"; "native": no cap); before the first kernel is
/// prepared, once per process.
base::Status cap_instruction_set(std::string_view isa);
/// What kernels of this process compute with, `threads` per worker.
base::NumericClass numeric_class(int threads);

}  // namespace troupe::ops
