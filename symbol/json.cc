// SPDX-License-Identifier: Apache-2.0
// Symbols as JSON, in the layout of MXNet's symbol files (nnvm's saveload_json): nodes in
// topological order, variables with the operator "null", all attribute values as text.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "symbol/node.h"
#include "symbol/symbol.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

using base::Errc;
using nlohmann::json;
using ordered_json = nlohmann::ordered_json;

constexpr int kMxnetVersion = 10900;

ordered_json reference(Value value) {
  return {value.node, value.output, 0};
}

ordered_json node_to_json(const GraphNode& node) {
  ordered_json entry;
  entry["op"] = node.is_variable() ? "null" : node.op->name;
  entry["name"] = node.name;
  ops::Attributes attributes = node.extra;
  if (!node.is_variable()) attributes.merge(node.params.to_attributes());
  if (!attributes.empty()) entry["attrs"] = attributes;
  entry["inputs"] = ordered_json::array();
  for (Value input : node.inputs) entry["inputs"].push_back(reference(input));
  return entry;
}

base::Status malformed(const std::string& where, std::string_view what) {
  return base::error(Errc::invalid_argument, "symbol JSON, {}: {}", where, what);
}

base::Result<json> parse_text(std::string_view text) {
  if (text.size() > kJsonBytesMax) {
    return base::error(Errc::resource_exhausted, "symbol JSON has {} bytes; the limit is {}",
                       text.size(), kJsonBytesMax);
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& fault) {
    return base::error(Errc::invalid_argument, "symbol JSON, byte {}: not JSON", fault.byte);
  } catch (const json::exception& fault) {
    return base::error(Errc::invalid_argument, "symbol JSON: {}", fault.what());
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

/// The node's attributes under any of the three keys that versions of MXNet used.
base::Result<ops::Attributes> read_attributes(const json& node, const std::string& where) {
  static const std::set<std::string> kHidden = {"lr_mult", "wd_mult", "ctx_group",
                                                "force_mirroring", "mirror_stage"};
  ops::Attributes attributes;
  for (const char* key : {"attrs", "attr", "param"}) {
    const auto it = node.find(key);
    if (it == node.end()) continue;
    if (!it->is_object()) return malformed(where, fmt::format("'{}' must be an object", key));
    for (const auto& [name, value] : it->items()) {
      if (!value.is_string()) {
        return malformed(where, fmt::format("attribute '{}' must be text", name));
      }
      const std::string kept = kHidden.contains(name) ? fmt::format("__{}__", name) : name;
      attributes[kept] = value.get<std::string>();
    }
  }
  return attributes;
}

base::Result<const json*> member_array(const json& object, const char* key,
                                       const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) {
    return malformed(where, fmt::format("has no array '{}'", key));
  }
  return &*it;
}

}  // namespace

std::string Symbol::to_json() const {
  const Graph flat = graph();
  ordered_json nodes = ordered_json::array();
  ordered_json arguments = ordered_json::array();
  ordered_json row_starts = ordered_json::array();
  ordered_json heads = ordered_json::array();
  const ValueNumbers numbers(flat);
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    nodes.push_back(node_to_json(flat.nodes[i]));
    if (flat.nodes[i].is_variable()) arguments.push_back(i);
    row_starts.push_back(numbers.begin(i));
  }
  row_starts.push_back(numbers.size());
  for (Value head : flat.heads) heads.push_back(reference(head));
  ordered_json file;
  file["nodes"] = std::move(nodes);
  file["arg_nodes"] = std::move(arguments);
  file["node_row_ptr"] = std::move(row_starts);
  file["heads"] = std::move(heads);
  file["attrs"]["mxnet_version"] = {"int", kMxnetVersion};
  // Names from outside may hold any bytes; what is no UTF-8 is replaced rather than thrown about.
  return file.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

base::Result<Symbol> Symbol::from_json(const ops::OpTable& table, std::string_view text) {
  TROUPE_TRY_ASSIGN(const json file, parse_text(text));
  if (!file.is_object()) return malformed("top level", "must be an object");
  TROUPE_TRY_ASSIGN(const json* nodes, member_array(file, "nodes", "top level"));
  if (nodes->size() > kJsonNodesMax) {
    return base::error(Errc::resource_exhausted, "symbol JSON has {} nodes; the limit is {}",
                       nodes->size(), kJsonNodesMax);
  }
  std::vector<std::shared_ptr<const Node>> made;
  const auto find = [&made](Value value, const std::string& where) -> base::Result<Entry> {
    const auto& node = made[node_index(value)];
    if (value.output < node->outputs) return Entry{node, value.output};
    return malformed(
        where, fmt::format("node {} '{}' has no output {}", value.node, node->name, value.output));
  };
  for (const json& entry : *nodes) {
    std::string where = fmt::format("node {}", made.size());
    if (!entry.is_object()) return malformed(where, "must be an object");
    TROUPE_TRY_ASSIGN(std::string name, read_text(entry, "name", where));
    where += fmt::format(" '{}'", name);
    TROUPE_TRY_ASSIGN(const std::string op, read_text(entry, "op", where));
    TROUPE_TRY_ASSIGN(ops::Attributes attributes, read_attributes(entry, where));
    TROUPE_TRY_ASSIGN(const json* references, member_array(entry, "inputs", where));
    if (op == "null") {
      if (!references->empty()) return malformed(where, "a variable has no inputs");
      made.push_back(variable(std::move(name), std::move(attributes)).outputs_.front().node);
      continue;
    }
    Inputs inputs;
    for (const json& item : *references) {
      TROUPE_TRY_ASSIGN(const Value value, read_reference(item, made.size(), where));
      TROUPE_TRY_ASSIGN(Entry input, find(value, where));
      inputs.positional.emplace_back().outputs_.push_back(std::move(input));
    }
    base::Result<Symbol> symbol = create(table, op, std::move(name), inputs, attributes);
    if (!symbol.ok()) return malformed(where, symbol.status().text());
    made.push_back(symbol->outputs_.front().node);
  }
  TROUPE_TRY_ASSIGN(const json* heads, member_array(file, "heads", "top level"));
  if (heads->empty()) return malformed("heads", "a symbol needs at least one output");
  Symbol result;
  for (const json& item : *heads) {
    TROUPE_TRY_ASSIGN(const Value value, read_reference(item, made.size(), "heads"));
    TROUPE_TRY_ASSIGN(Entry head, find(value, "heads"));
    result.outputs_.push_back(std::move(head));
  }
  TROUPE_TRY(result.validate());
  return result;
}

base::Result<Symbol> Symbol::load(const ops::OpTable& table, const std::string& path) {
  TROUPE_TRY_ASSIGN(const std::string text, base::read_text_file(path, kJsonBytesMax));
  base::Result<Symbol> symbol = from_json(table, text);
  if (!symbol.ok()) return symbol.status().with_context(path);
  return symbol;
}

base::Status Symbol::save(const std::string& path) const {
  const std::string text = to_json();
  return base::write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace troupe::symbol
