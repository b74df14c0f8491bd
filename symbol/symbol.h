// SPDX-License-Identifier: Apache-2.0
// Symbol: an immutable expression of operators over variables, with one or more outputs. Symbols
// are handles on shared nodes; composing never changes what exists. A symbol may outlive the
// OpTable that made its operators. Any thread.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "ops/table.h"
#include "symbol/graph.h"

namespace troupe::symbol {

class Symbol;
class Node;

/// Inputs of one call: the first ones by position, others by the operator's names for them. What is
/// left out becomes a variable "<node name>_<input name>".
struct Inputs {
  std::vector<Symbol> positional;
  std::map<std::string, Symbol> named;
};

/// Shapes of everything that the outside of a symbol sees, in the order of its lists.
struct InferredShapes {
  std::vector<base::Shape> arguments, outputs, auxiliary;
  bool complete = false;
};
/// The same for dtypes.
struct InferredDTypes {
  std::vector<base::DType> arguments, outputs, auxiliary;
};

/// One or more values of a graph.
class Symbol {
 public:
  /// No outputs.
  Symbol() = default;

  /// A free variable. `extra`: "__shape__" and "__dtype__" are used by inference, others are kept.
  static Symbol variable(std::string name, ops::Attributes extra = {});
  /// All outputs of several symbols.
  static Symbol group(std::span<const Symbol> symbols);
  /// A call of `op` (name or alias). `name` may be empty if no variable must be created: unnamed
  /// nodes are numbered when the symbol is laid out. Errors name operator and node.
  static base::Result<Symbol> create(const ops::OpTable& table, std::string_view op,
                                     std::string name, const Inputs& inputs,
                                     const ops::Attributes& attributes = {});
  /// Replaces free variables by single-output symbols; unknown names are errors.
  base::Result<Symbol> compose(const std::map<std::string, Symbol>& replacements) const;

  std::size_t output_count() const { return outputs_.size(); }
  /// The output at `index`; CHECKs the range.
  Symbol operator[](std::size_t index) const;
  /// The output of this name ("fc1_output"), or of a node with one visible output ("fc1").
  base::Result<Symbol> output(std::string_view name) const;
  /// A group of every node's visible outputs, variables included.
  Symbol internals() const;

  /// Names in topological order. Variables with equal names are one argument only if they are one
  /// variable; validate() refuses others.
  std::vector<std::string> list_arguments() const;
  /// The arguments that are learned, by the convention of names: all but "data" and those that end
  /// in "label". (A job may name its inputs otherwise: train::InputSpec.)
  std::vector<std::string> list_parameters() const;
  std::vector<std::string> list_outputs() const;
  std::vector<std::string> list_auxiliary_states() const;

  /// Flat form. Unnamed nodes get names here. CHECKs nothing: see validate().
  Graph graph() const;
  static Symbol from_graph(const Graph& graph);
  /// invalid_argument when two variables or two nodes share a name.
  base::Status validate() const;

  /// Inference from what is known by argument (or auxiliary state) name. Unknown names and
  /// contradictions are errors; incomplete results are not.
  base::Result<InferredShapes> infer_shapes(const std::map<std::string, base::Shape>& known) const;
  /// Arguments that nothing decides are f32.
  base::Result<InferredDTypes> infer_dtypes(const std::map<std::string, base::DType>& known) const;

  /// MXNet's symbol JSON, one node a line.
  std::string to_json() const;
  /// Reads to_json()'s form and files of MXNet (old attribute keys, aliases, two-element inputs).
  /// Malformed text gives one error with position or node.
  static base::Result<Symbol> from_json(const ops::OpTable& table, std::string_view json);
  /// from_json of a file of at most kJsonBytesMax bytes.
  static base::Result<Symbol> load(const ops::OpTable& table, const std::string& path);
  base::Status save(const std::string& path) const;

 private:
  friend class Node;
  struct Entry {
    std::shared_ptr<const Node> node;
    int output = 0;
  };
  /// graph() before unnamed nodes get their names.
  Graph laid_out() const;

  std::vector<Entry> outputs_;
};

/// Longest JSON and most nodes that from_json takes, and most values that these may make: outputs
/// of all nodes, and inputs that the file leaves out. A short node may have 256 of them, and for
/// each that nobody reads a gradient has one more node. Built-in networks have some thousands.
inline constexpr std::size_t kJsonBytesMax = 64u << 20;
inline constexpr std::size_t kJsonNodesMax = 1'000'000;
inline constexpr std::size_t kJsonValuesMax = 200'000;
/// And bytes of the names of all these together.
inline constexpr std::size_t kJsonNamesMax = 32u << 20;

/// Builds symbols as one reads them: after the first error all further calls give empty symbols,
/// and finish() reports it. One thread.
class Composer {
 public:
  explicit Composer(const ops::OpTable& table) : table_(table) {}

  Symbol variable(std::string name, ops::Attributes extra = {});
  Symbol call(std::string_view op, std::string name, std::vector<Symbol> inputs,
              const ops::Attributes& attributes = {});
  Symbol call(std::string_view op, std::string name, const Inputs& inputs,
              const ops::Attributes& attributes = {});
  /// The symbol, or the first error of any call.
  base::Result<Symbol> finish(const Symbol& symbol) const;

 private:
  const ops::OpTable& table_;
  base::Status error_;
};

}  // namespace troupe::symbol
