// SPDX-License-Identifier: Apache-2.0
// Error codes' names and sentences, Status, and the end of a failed CHECK.
#include "base/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace troupe::base {
namespace {

struct CodeText {
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array<CodeText, 17> kCodes = {{
    {"ok", "Nothing went wrong."},
    {"invalid_argument", "An argument, attribute or option has an impossible value."},
    {"not_found", "The named thing does not exist."},
    {"already_exists", "The named thing exists already with other content."},
    {"failed_precondition", "The call is valid but not in the present state."},
    {"resource_exhausted", "A configured limit or a resource is used up."},
    {"unavailable", "A peer or service cannot be reached now; trying again may help."},
    {"deadline_exceeded", "A deadline passed before the thing happened."},
    {"cancelled", "The operation was stopped because its job or owner ended."},
    {"abandoned", "The party that had to finish the operation is gone."},
    {"data_loss", "The bytes are truncated, garbled or fail their checksum."},
    {"permission_denied", "The peer or user may not do this."},
    {"unimplemented", "The request is understood but this version does not do it."},
    {"stale_view", "The message belongs to an earlier membership view."},
    {"version_mismatch", "The two programs speak different versions."},
    {"not_finite", "A value is NaN or infinite where only finite values make sense."},
    {"internal", "An invariant is broken; this is a defect of Troupe."},
}};

}  // namespace

std::string_view errc_name(Errc code) {
  return kCodes.at(static_cast<std::size_t>(code)).name;
}

std::string_view errc_sentence(Errc code) {
  return kCodes.at(static_cast<std::size_t>(code)).sentence;
}

Errc errc_from_wire(std::uint16_t number) {
  return number < kCodes.size() ? static_cast<Errc>(number) : Errc::internal;
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
