// SPDX-License-Identifier: Apache-2.0
// Composer: calls in sequence, errors at the end.
#include <utility>

#include "symbol/symbol.h"

namespace troupe::symbol {

Symbol Composer::variable(std::string name, ops::Attributes extra) {
  return Symbol::variable(std::move(name), std::move(extra));
}

Symbol Composer::call(std::string_view op, std::string name, std::vector<Symbol> inputs,
                      const ops::Attributes& attributes) {
  return call(op, std::move(name), Inputs{std::move(inputs), {}}, attributes);
}

Symbol Composer::call(std::string_view op, std::string name, const Inputs& inputs,
                      const ops::Attributes& attributes) {
  if (!error_.ok()) return {};
  base::Result<Symbol> made = Symbol::create(table_, op, std::move(name), inputs, attributes);
  if (made.ok()) return std::move(made).value();
  error_ = made.status();
  return {};
}

base::Result<Symbol> Composer::finish(const Symbol& symbol) const {
  if (!error_.ok()) return error_;
  TROUPE_TRY(symbol.validate());
  return symbol;
}

}  // namespace troupe::symbol
