// SPDX-License-Identifier: Apache-2.0
// From exceptions to Status. Troupe throws none, but the standard library and others do: whoever
// owes somebody an answer catches what is thrown on the way to it. Any thread.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace troupe::base {

/// Of the exception that is being handled, in the words "[`name`] its function threw ...":
/// resource_exhausted for std::bad_alloc, else internal.
Status status_of_exception(std::string_view name);

/// What `function` returns, a Status or a Result; where it throws, status_of_exception(). `name` is
/// text of any kind and is read only then: it may lie in a cache line that nobody else needs.
template <typename Name, typename Function>
std::invoke_result_t<Function> caught(const Name& name, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    return status_of_exception(name);
  }
}

}  // namespace troupe::base
