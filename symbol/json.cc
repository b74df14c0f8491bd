// SPDX-License-Identifier: Apache-2.0
// Symbols as JSON, in the layout of MXNet's symbol files (nnvm's saveload_json): nodes in
// topological order, variables with the operator "null", all attribute values as text.
#include <fmt/ranges.h>

#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "symbol/mxnet.h"
#include "symbol/node.h"
#include "symbol/symbol.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

using base::Errc;
using nlohmann::json;
using ordered_json = nlohmann::ordered_json;

constexpr int kMxnetVersion = 10901;

ordered_json reference(Value value) {
  return {value.node, value.output, 0};
}

ordered_json node_to_json(const GraphNode& node) {
  ordered_json entry;
  entry["op"] = node.is_variable() ? "null" : mxnet_name(*node.op);
  entry["name"] = node.name;
  const ops::Attributes attributes = mxnet_attributes(node);
  if (!attributes.empty()) entry["attrs"] = attributes;
  entry["inputs"] = ordered_json::array();
  for (Value input : node.inputs) entry["inputs"].push_back(reference(input));
  return entry;
}

/// In one line. Names from outside may hold any bytes; what is no UTF-8 is replaced rather than
/// thrown about.
std::string line(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

base::Status malformed(const std::string& where, std::string_view what) {
  return base::error(Errc::invalid_argument, "symbol JSON, {}: {}", where, what);
}

/// Most levels of objects and lists; files of MXNet have six, and a parser keeps some of each.
constexpr int kNestingMax = 64;

/// How deep lists and objects lie in each other at most, as far as brackets outside texts say.
int nesting(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;  // what follows is no end
    if (quoted) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

base::Result<json> parse_text(std::string_view text) {
  if (text.size() > kJsonBytesMax) {
    return base::error(Errc::resource_exhausted, "symbol JSON has {} bytes; the limit is {}",
                       text.size(), kJsonBytesMax);
  }
  if (nesting(text) > kNestingMax) {
    return base::error(Errc::invalid_argument, "symbol JSON is nested deeper than {} levels",
                       kNestingMax);
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& fault) {
    return base::error(Errc::invalid_argument, "symbol JSON, byte {}: not JSON", fault.byte);
  } catch (const json::exception& fault) {
    // What it has of a number that no double holds may be long.
    return base::error(Errc::invalid_argument, "symbol JSON: {}",
                       base::shortened(fault.what(), base::kQuotedBytesMax));
  }
}

/// [node, output] or [node, output, version], where the node is one of the first `nodes`.
base::Result<Value> read_reference(const json& entry, std::size_t nodes, const std::string& where) {
  const bool fits = entry.is_array() && (entry.size() == 2 || entry.size() == 3) &&
                    entry[0].is_number_unsigned() && entry[1].is_number_unsigned();
  if (!fits)
    return malformed(where, "a reference must be [node, output] or [node, output, version]");
  const auto node = entry[0].get<std::uint64_t>();
  const auto output = entry[1].get<std::uint64_t>();
  if (node >= nodes) {
    return malformed(where, fmt::format("refers to node {}, which is not before it", node));
  }
  if (output >= 1024) return malformed(where, fmt::format("refers to output {}", output));
  return Value{static_cast<std::int64_t>(node), static_cast<int>(output)};
}

base::Result<std::string> read_text(const json& object, const char* key, const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string()) {
    return malformed(where, fmt::format("has no text '{}'", key));
  }
  return it->get<std::string>();
}

/// The texts of one object of attributes.
base::Status read_attributes(const json& node, const char* key, const std::string& where,
                             ops::Attributes& attributes) {
  const auto it = node.find(key);
  if (it == node.end()) return {};
  if (!it->is_object()) return malformed(where, fmt::format("'{}' must be an object", key));
  for (const auto& [name, value] : it->items()) {
    if (!value.is_string()) {
      return malformed(where, fmt::format("attribute '{}' must be text", name));
    }
    attributes[name] = value.get<std::string>();
  }
  return {};
}

base::Result<const json*> member_array(const json& object, const char* key,
                                       const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) {
    return malformed(where, fmt::format("has no array '{}'", key));
  }
  return &*it;
}

/// The node at `index`, whose inputs are nodes before it. Versions of MXNet kept attributes under
/// three keys; in 0.8 parameters were apart, under "param".
base::Result<FileNode> read_node(const json& entry, std::size_t index) {
  FileNode node;
  node.where = fmt::format("node {}", index);
  if (!entry.is_object()) return malformed(node.where, "must be an object");
  TROUPE_TRY_ASSIGN(node.name, read_text(entry, "name", node.where));
  // Outputs and inputs that are left out are named after it, up to hundreds of each.
  constexpr std::size_t kNameBytesMax = 4'096;
  if (node.name.size() > kNameBytesMax) {
    return malformed(node.where, fmt::format("its name has {} bytes; the limit is {}",
                                             node.name.size(), kNameBytesMax));
  }
  node.where += fmt::format(" '{}'", node.name);
  TROUPE_TRY_ASSIGN(node.op, read_text(entry, "op", node.where));
  const bool apart = entry.contains("param");
  TROUPE_TRY(read_attributes(entry, "attrs", node.where, node.attributes));
  TROUPE_TRY(read_attributes(entry, "attr", node.where, apart ? node.user : node.attributes));
  TROUPE_TRY(read_attributes(entry, "param", node.where, node.attributes));
  TROUPE_TRY_ASSIGN(const json* references, member_array(entry, "inputs", node.where));
  if (node.is_variable() && !references->empty()) {
    return malformed(node.where, "a variable has no inputs");
  }
  for (const json& item : *references) {
    TROUPE_TRY_ASSIGN(const Value value, read_reference(item, index, node.where));
    node.inputs.push_back(value);
  }
  return node;
}

base::Result<std::vector<FileNode>> read_nodes(const json& file) {
  TROUPE_TRY_ASSIGN(const json* entries, member_array(file, "nodes", "top level"));
  if (entries->size() > kJsonNodesMax) {
    return base::error(Errc::resource_exhausted, "symbol JSON has {} nodes; the limit is {}",
                       entries->size(), kJsonNodesMax);
  }
  std::vector<FileNode> nodes;
  for (const json& entry : *entries) {
    TROUPE_TRY_ASSIGN(FileNode node, read_node(entry, nodes.size()));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// Files of others have operators of one name, such as Gluon's where a block is called twice: the
/// second one gets the next name that is free, and so does one that is called like a variable.
/// Variables are who they are by their names.
void rename_repeated(std::vector<FileNode>& nodes) {
  std::set<std::string> names, taken;
  std::map<std::string, std::size_t> numbers;  // tried for a name
  for (const FileNode& node : nodes) {
    names.insert(node.name);
    if (node.is_variable()) taken.insert(node.name);
  }
  for (FileNode& node : nodes) {
    if (node.is_variable() || node.name.empty() || taken.insert(node.name).second) continue;
    std::size_t& number = numbers[node.name];
    std::string free;
    do {
      free = fmt::format("{}_{}", node.name, ++number);
    } while (names.contains(free));
    node.name = free;
    names.insert(free);
    taken.insert(std::move(free));
  }
}

/// What a file makes, with variables for the inputs that it leaves out.
class Made {
 public:
  base::Status values(std::size_t more) {
    values_ += more;
    if (values_ <= kJsonValuesMax) return {};
    return base::error(Errc::resource_exhausted,
                       "symbol JSON makes more than {} values with the inputs that it leaves out",
                       kJsonValuesMax);
  }
  /// `names` of about `bytes` each.
  base::Status names(std::size_t bytes, std::size_t names) {
    name_bytes_ += bytes * names;
    if (name_bytes_ <= kJsonNamesMax) return {};
    return base::error(Errc::resource_exhausted,
                       "symbol JSON makes names of more than {} bytes, with those of outputs and "
                       "of the inputs that it leaves out",
                       kJsonNamesMax);
  }

 private:
  std::size_t values_ = 0, name_bytes_ = 0;
};

}  // namespace

std::string Symbol::to_json() const {
  const Graph flat = graph();
  std::vector<std::string> nodes;
  ordered_json arguments = ordered_json::array();
  ordered_json row_starts = ordered_json::array();
  ordered_json heads = ordered_json::array();
  const ValueNumbers numbers(flat);
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    nodes.push_back("    " + line(node_to_json(flat.nodes[i])));
    if (flat.nodes[i].is_variable()) arguments.push_back(i);
    row_starts.push_back(numbers.begin(i));
  }
  row_starts.push_back(numbers.size());
  for (Value head : flat.heads) heads.push_back(reference(head));
  const ordered_json attributes = {{"mxnet_version", {"int", kMxnetVersion}}};
  return fmt::format(
      "{{\n  \"nodes\": [\n{}\n  ],\n  \"arg_nodes\": {},\n  \"node_row_ptr\": {},\n  \"heads\": "
      "{},\n"
      "  \"attrs\": {}\n}}",
      fmt::join(nodes, ",\n"), line(arguments), line(row_starts), line(heads), line(attributes));
}

base::Result<Symbol> Symbol::from_json(const ops::OpTable& table, std::string_view text) {
  TROUPE_TRY_ASSIGN(const json file, parse_text(text));
  if (!file.is_object()) return malformed("top level", "must be an object");
  TROUPE_TRY_ASSIGN(std::vector<FileNode> nodes, read_nodes(file));
  upgrade(table, nodes);
  rename_repeated(nodes);
  std::vector<std::shared_ptr<const Node>> made;
  Made count;
  const auto find = [&made](Value value, const std::string& where) -> base::Result<Entry> {
    const auto& node = made[node_index(value)];
    if (value.output < node->outputs) return Entry{node, value.output};
    return malformed(
        where, fmt::format("node {} '{}' has no output {}", value.node, node->name, value.output));
  };
  for (FileNode& node : nodes) {
    if (node.is_variable()) {
      TROUPE_TRY(count.values(1));
      TROUPE_TRY(count.names(node.name.size(), 1));
      made.push_back(
          variable(std::move(node.name), std::move(node.attributes)).outputs_.front().node);
      continue;
    }
    Inputs inputs;
    for (const Value value : node.inputs) {
      TROUPE_TRY_ASSIGN(Entry input, find(value, node.where));
      inputs.positional.emplace_back().outputs_.push_back(std::move(input));
    }
    base::Result<Symbol> symbol =
        create(table, node.op, std::move(node.name), inputs, node.attributes);
    if (!symbol.ok()) return malformed(node.where, symbol.status().text());
    std::shared_ptr<const Node> call = symbol->outputs_.front().node;
    const std::size_t more =
        static_cast<std::size_t>(call->outputs) + call->inputs.size() - node.inputs.size();
    TROUPE_TRY(count.values(more));
    TROUPE_TRY(count.names(call->name.size(), 1 + more));
    made.push_back(std::move(call));
  }
  TROUPE_TRY_ASSIGN(const json* heads, member_array(file, "heads", "top level"));
  if (heads->empty()) return malformed("heads", "a symbol needs at least one output");
  TROUPE_TRY(count.values(heads->size()));
  Symbol result;
  for (const json& item : *heads) {
    TROUPE_TRY_ASSIGN(const Value value, read_reference(item, made.size(), "heads"));
    TROUPE_TRY_ASSIGN(Entry head, find(value, "heads"));
    const int visible =
        head.node->op == nullptr ? 1 : head.node->op->visible_output_count(head.node->params);
    if (value.output >= visible) {
      return malformed("heads", fmt::format("output {} of node {} '{}' is hidden", value.output,
                                            value.node, head.node->name));
    }
    TROUPE_TRY(count.names(head.node->name.size(), 1));
    result.outputs_.push_back(std::move(head));
  }
  TROUPE_TRY(result.validate());
  return result;
}

base::Result<Symbol> Symbol::load(const ops::OpTable& table, const std::string& path) {
  TROUPE_TRY_ASSIGN(const std::string text,
                    base::read_text_file(path, kJsonBytesMax, base::FileKind::any));
  base::Result<Symbol> symbol = from_json(table, text);
  if (!symbol.ok()) return symbol.status().with_context(path);
  return symbol;
}

base::Status Symbol::save(const std::string& path) const {
  const std::string text = to_json();
  return base::write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace troupe::symbol
