// SPDX-License-Identifier: Apache-2.0
// The kinds of exceptions.
#include "base/caught.h"

#include <exception>
#include <new>

namespace troupe::base {

Status status_of_exception(std::string_view name) {
  const auto text = [name](Errc code, std::string_view what) {
    return error(code, "[{}] its function threw {}", name, what);
  };
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc& exception) {
    return text(Errc::resource_exhausted, exception.what());
  } catch (const std::exception& exception) {
    return text(Errc::internal, exception.what());
  } catch (...) {
    return text(Errc::internal, "something that is no std::exception");
  }
}

}  // namespace troupe::base
