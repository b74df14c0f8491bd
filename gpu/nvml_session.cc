// SPDX-License-Identifier: Apache-2.0
// Finds NVML's functions, under older names, too.
#include "gpu/nvml_session.h"

namespace troupe::gpu {
namespace {

using base::Errc;
using base::Result;
using base::Status;

/// The first function that is missing is the error.
template <typename... F>
Status find_all(const SharedLibrary& library, NvmlFunction<F>&... functions) {
  Status found;
  ((found = found.ok() ? functions.find(library) : found), ...);
  return found;
}

/// Drivers before some, or after some, lack these.
template <typename... F>
void find_some(const SharedLibrary& library, NvmlFunction<F>&... functions) {
  (static_cast<void>(functions.find(library)), ...);
}

Result<NvmlFunctions> find_functions(const SharedLibrary& library) {
  NvmlFunctions f;
  TROUPE_TRY(find_all(library, f.init, f.shutdown, f.error_text, f.count, f.by_index, f.by_bus_id));
  find_some(library, f.by_uuid, f.name, f.uuid, f.pci, f.cpus, f.mig_mode, f.slices_max, f.slice,
            f.gpu_instance, f.compute_instance, f.memory, f.utilization, f.power, f.temperature,
            f.clock, f.clock_reasons, f.violation, f.errors, f.rows, f.event_set, f.free_event_set,
            f.register_events, f.wait_event);
  if (f.clock_reasons.call == nullptr) {  // before driver 535
    f.clock_reasons.name = "nvmlDeviceGetCurrentClocksThrottleReasons";
    find_some(library, f.clock_reasons);
  }
  return f;
}

}  // namespace

Result<std::shared_ptr<const NvmlSession>> NvmlSession::open(
    const std::vector<std::string>& files) {
  TROUPE_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open_of_system(files));
  TROUPE_TRY_ASSIGN(const NvmlFunctions functions, find_functions(library));
  if (const int code = functions.init.call(); code != NvmlCode::kSuccess) {
    return Status(Errc::failed_precondition,
                  problem(functions, library.file(), functions.init.name, code));
  }
  return std::shared_ptr<const NvmlSession>(new NvmlSession(functions, library.file()));
}

std::string NvmlSession::error_text(const NvmlFunctions& functions, int code) {
  const char* const text = functions.error_text.call(code);
  return text != nullptr ? text : fmt::format("error {}", code);
}

}  // namespace troupe::gpu
