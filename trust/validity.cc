// SPDX-License-Identifier: Apache-2.0
// Beginnings and ends.
#include "trust/validity.h"

#include "base/units.h"

namespace troupe::trust {

base::Status check_validity(const Validity& validity) {
  if (validity.until > kLatestTime) {
    return base::error(base::Errc::invalid_argument,
                       "it would be valid until {}; {} is the last day that can be written",
                       base::format_date(validity.until), base::format_date(kLatestTime));
  }
  if (validity.until < validity.from) {
    return base::error(base::Errc::invalid_argument, "it would end on {}, before it begins on {}",
                       base::format_date(validity.until), base::format_date(validity.from));
  }
  return {};
}

}  // namespace troupe::trust
