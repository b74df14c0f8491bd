// SPDX-License-Identifier: Apache-2.0
// What an agent does for schemas::FolderProbe: whether this machine sees the folder that the others
// of a job see. Whoever asks is the coordinator or sits on its port, so nothing but small files of
// the probe's own name can be made, removed or compared. Blocking.
#pragma once

#include <string>

#include "base/status.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// Makes `probe.file` in the folder `probe.path` (itself made if missing), removes it, or reads it
/// back. Errors: invalid_argument (the file is no plain ".probe-NAME", the nonce no plain name, the
/// path not absolute), permission_denied (outside of `root`, see base::check_inside; the system's),
/// failed_precondition (it holds something else), those of the folder. No error quotes what a file
/// holds.
base::Status probe_folder(const schemas::FolderProbe& probe, const std::string& root);

}  // namespace troupe::cluster
