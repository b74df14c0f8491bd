// SPDX-License-Identifier: Apache-2.0
// Values of results in test programs that are no Catch2 tests. Any thread.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/status.h"

namespace troupe::tests {

/// An error ends the program with 2 and its text.
inline void must(const base::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(2);
}
template <typename T>
T must(base::Result<T> result) {
  must(result.status());
  return std::move(result).value();
}

}  // namespace troupe::tests
