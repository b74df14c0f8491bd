// SPDX-License-Identifier: Apache-2.0
// Error codes' names, Status, and the end of a failed CHECK.
#include "base/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace troupe::base {
namespace {

// By code.
constexpr std::array<std::string_view, 18> kNames = {
    "ok",
    "invalid_argument",
    "not_found",
    "already_exists",
    "failed_precondition",
    "resource_exhausted",
    "unavailable",
    "deadline_exceeded",
    "cancelled",
    "abandoned",
    "data_loss",
    "permission_denied",
    "unimplemented",
    "stale_view",
    "version_mismatch",
    "not_finite",
    "internal",
    "io_error",
};

}  // namespace

std::string_view errc_name(Errc code) {
  return kNames.at(static_cast<std::size_t>(code));
}

Errc errc_from_wire(std::uint16_t number) {
  return number < kNames.size() ? static_cast<Errc>(number) : Errc::internal;
}

Status::Status(Errc code, std::string text) {
  TROUPE_CHECK(code != Errc::ok, "an error needs a code other than ok");
  rep_ = std::make_shared<const Rep>(Rep{code, std::move(text)});
}

const std::string& Status::text() const {
  static const std::string empty;
  return rep_ ? rep_->text : empty;
}

std::string Status::to_string() const {
  return ok() ? std::string("ok") : fmt::format("{}: {}", errc_name(code()), text());
}

Status Status::with_context(std::string_view prefix) const {
  return ok() ? Status() : Status(code(), fmt::format("{}: {}", prefix, text()));
}

void check_failed(const char* file, int line, const char* condition, std::string_view text) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed: %.*s\n", file, line, condition,
               static_cast<int>(text.size()), text.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace troupe::base
