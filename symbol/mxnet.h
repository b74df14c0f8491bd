// SPDX-License-Identifier: Apache-2.0
// Where MXNet's symbol files differ from symbols here: forms of old versions, names, numbers of
// dtypes, extents that are not known. Pure functions, any thread.
// Private to this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "symbol/graph.h"

namespace troupe::symbol {

/// One node of a file, as far as it is read without knowing its operator.
struct FileNode {
  std::string where;  ///< "node 3 'fc1'", for errors
  std::string name;
  std::string op;  ///< "null": a variable
  ops::Attributes attributes;
  ops::Attributes user;  ///< what files of MXNet 0.8 keep apart from the operator's parameters
  std::vector<Value> inputs;

  bool is_variable() const { return op == "null"; }
};

/// Brings nodes of old versions into today's form, as MXNet does when it loads them: lr_mult and
/// its like become __lr_mult__, those of an input ("weight_lr_mult") move to that input's variable;
/// other user attributes are kept as __name__; target_shape and keep_highest of Reshape become
/// codes of its shape. Pooling_v1 becomes Pooling where that computes the same; elsewhere it stays,
/// an operator that is not known.
void upgrade(const ops::OpTable& table, std::vector<FileNode>& nodes);

/// What the attribute __shape__ tells: an extent of 0 or -1 is not known, () and None tell nothing.
base::Result<base::Shape> declared_shape(std::string_view text);
/// What the attribute __dtype__ tells: MXNet's number (-1 tells nothing) or a name.
base::Result<std::optional<base::DType>> declared_dtype(std::string_view text);

/// The operator's name in files.
const std::string& mxnet_name(const ops::OpDef& op);
/// The node's attributes in files: parameters that differ from their defaults, and all others that
/// it has.
ops::Attributes mxnet_attributes(const GraphNode& node);

}  // namespace troupe::symbol
