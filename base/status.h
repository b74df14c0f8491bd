// SPDX-License-Identifier: Apache-2.0
// Operating errors: Status (no value) and Result<T> (value or error), with one error code per kind.
// Values own their text; copies share it. Any thread may use them. Programmer errors are CHECK's.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace troupe::base {

/// The kind of an operating error. Mirrored in schemas/wire.capnp, so codes cross machines; append
/// only.
enum class Errc : std::uint16_t {
  ok = 0,
  /// An argument, attribute or option has a value that no state of the system would accept.
  invalid_argument = 1,
  /// A named thing (file, key, job, operator) does not exist.
  not_found = 2,
  /// A named thing exists already with other content.
  already_exists = 3,
  /// The call is valid but not in the present state.
  failed_precondition = 4,
  /// A configured limit or a resource (memory, disk, slots, ports) is used up.
  resource_exhausted = 5,
  /// A peer or a service cannot be reached now; trying again may help.
  unavailable = 6,
  /// A deadline passed before the thing happened.
  deadline_exceeded = 7,
  /// The operation was stopped because its job or owner ended.
  cancelled = 8,
  /// The party that had to finish an operation was destroyed without finishing it.
  abandoned = 9,
  /// Bytes do not form what they should: truncated, garbled or failing a checksum.
  data_loss = 10,
  /// The peer or user may not do this.
  permission_denied = 11,
  /// The request is understood but this build or version does not do it.
  unimplemented = 12,
  /// A frame or message belongs to an earlier membership view.
  stale_view = 13,
  /// Two programs speak different protocol or format versions.
  version_mismatch = 14,
  /// A value is NaN or infinite where only finite values make sense.
  not_finite = 15,
  /// An invariant was found broken at run time; always a defect of Troupe.
  internal = 16,
  /// A disk, or a server of files, has failed to read or write. Nothing is known of the bytes:
  /// another try or another machine may have them. Never said of a peer.
  io_error = 17,
};

/// The code's identifier, for example "not_found".
std::string_view errc_name(Errc code);
/// The code for a number from the wire; unknown numbers become Errc::internal.
Errc errc_from_wire(std::uint16_t number);

/// Success, or a code with a text that names the thing and the values.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Errc code, std::string text);

  bool ok() const { return rep_ == nullptr; }
  Errc code() const { return rep_ ? rep_->code : Errc::ok; }
  /// Empty for success.
  const std::string& text() const;
  /// "not_found: no job 'x'", or "ok".
  std::string to_string() const;
  /// The same code with "`prefix`: " before the text; success stays success.
  Status with_context(std::string_view prefix) const;
  /// The same with the text that `prefix` returns. It is called only for an error: where success is
  /// the rule, no text is made for nothing.
  template <typename Prefix, typename = std::enable_if_t<std::is_invocable_v<const Prefix&>>>
  Status with_context(const Prefix& prefix) const {
    return ok() ? Status() : with_context(std::string_view(prefix()));
  }

  friend bool operator==(const Status& a, const Status& b) {
    return a.code() == b.code() && a.text() == b.text();
  }

 private:
  struct Rep {
    Errc code;
    std::string text;
  };
  std::shared_ptr<const Rep> rep_;
};

/// Makes an error Status from an fmt format string.
template <typename... Args>
Status error(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

/// A T or an error. Reading the value of an error is a CHECK failure.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T made) : value_(std::move(made)) {}           // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    TROUPE_CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    TROUPE_CHECK(ok(), status_.to_string());
    return *value_;
  }
  const T& value() const& {
    TROUPE_CHECK(ok(), status_.to_string());
    return *value_;
  }
  /// A value of its own, which outlives a temporary Result: `for (float v : load().value())`.
  T value() && {
    TROUPE_CHECK(ok(), status_.to_string());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace troupe::base

#define TROUPE_CONCAT_INNER(a, b) a##b
#define TROUPE_CONCAT(a, b) TROUPE_CONCAT_INNER(a, b)

/// Returns the error of a Status expression from the enclosing function.
#define TROUPE_TRY(expression) \
  TROUPE_TRY_INNER(TROUPE_CONCAT(troupe_status_, __COUNTER__), expression)
#define TROUPE_TRY_INNER(status, expression)                     \
  do {                                                           \
    if (auto status = (expression); !status.ok()) return status; \
  } while (false)

/// Declares or assigns `lhs` from a Result expression, or returns its error.
#define TROUPE_TRY_ASSIGN(lhs, expression) \
  TROUPE_TRY_ASSIGN_INNER(TROUPE_CONCAT(troupe_result_, __COUNTER__), lhs, expression)
#define TROUPE_TRY_ASSIGN_INNER(result, lhs, expression) \
  auto result = (expression);                            \
  if (!result.ok()) return result.status();              \
  lhs = std::move(result).value()
