// SPDX-License-Identifier: Apache-2.0
// From error codes to exit codes.
#include "apps/exit_code.h"

namespace troupe::apps {

ExitCode exit_code_of(base::Errc code) {
  using base::Errc;
  switch (code) {
    case Errc::ok:
      return ExitCode::ok;
    case Errc::invalid_argument:
    case Errc::data_loss:
    case Errc::unimplemented:
    case Errc::version_mismatch:
      return ExitCode::bad_input;
    case Errc::not_found:
      return ExitCode::not_found;
    case Errc::already_exists:
      return ExitCode::conflict;
    case Errc::resource_exhausted:
      return ExitCode::no_resources;
    case Errc::unavailable:
    case Errc::deadline_exceeded:
      return ExitCode::unreachable;
    case Errc::permission_denied:
      return ExitCode::not_allowed;
    case Errc::internal:
      return ExitCode::internal;
    case Errc::failed_precondition:
    case Errc::cancelled:
    case Errc::abandoned:
    case Errc::stale_view:
    case Errc::not_finite:
      return ExitCode::failed;
  }
  return ExitCode::internal;
}

}  // namespace troupe::apps
