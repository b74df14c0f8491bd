// SPDX-License-Identifier: Apache-2.0
// Who may say that it is which end of a link: what a certificate names against what a Hello says. A
// pure function; any thread.
// Private to this folder.
#pragma once

#include "base/status.h"
#include "link/link.h"
#include "trust/identity.h"

namespace troupe::link {

/// permission_denied, naming both, unless `holder` is what `end` says: a coordinator; an agent by
/// its name; a person; a process of its machine, job and run, with an actor of that.
base::Status check_claim(const trust::Identity& holder, const LinkEnd& end);

}  // namespace troupe::link
