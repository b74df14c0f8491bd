// SPDX-License-Identifier: Apache-2.0
// ops_doc: prints docs/ops.md, the reference of the operators of this build.
#include <cstdio>

#include "ops/document.h"

int main() {
  const std::string text = troupe::ops::operator_reference(troupe::ops::OpTable::build());
  return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
}
