// SPDX-License-Identifier: Apache-2.0
// From error codes to exit codes, and what those mean.
#include "apps/exit_code.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>

namespace troupe::apps {

namespace {

using Clock = std::chrono::steady_clock;

/// When an allocation failed last; what ends the process within this time is its consequence.
std::atomic<Clock::time_point> allocation_failed = Clock::time_point::min();
constexpr std::chrono::seconds kConsequences{10};

}  // namespace

std::span<const ExitCodeInfo> exit_code_table() {
  static constexpr std::array kTable = {
      ExitCodeInfo{ExitCode::ok, "done"},
      ExitCodeInfo{
          ExitCode::failed,
          "the job failed: in `troupe run` after training had begun, on a cluster at any time"},
      ExitCodeInfo{ExitCode::bad_usage, "the command line is wrong"},
      ExitCodeInfo{
          ExitCode::bad_input,
          "a file is malformed, damaged or asks for the impossible; a job file cannot be read"},
      ExitCodeInfo{ExitCode::unreachable,
                   "the coordinator, a host or a disk cannot be reached, or is lost"},
      ExitCodeInfo{ExitCode::not_found,
                   "there is no such job, checkpoint or network, or no such file (a job file: 3)"},
      ExitCodeInfo{ExitCode::conflict, "it exists already, or another process uses it"},
      ExitCodeInfo{ExitCode::no_resources, "no memory, disk, slots, GPU or free port"},
      ExitCodeInfo{ExitCode::not_allowed, "the system or Troupe forbids it"},
      ExitCodeInfo{ExitCode::stopped, "the job was stopped by `troupe job stop`"},
      ExitCodeInfo{ExitCode::no_checkpoint, "the checkpoint that was asked for was not written"},
      ExitCodeInfo{ExitCode::internal, "a defect of Troupe"},
      ExitCodeInfo{ExitCode::hung_up, "stopped by SIGHUP: its terminal was closed"},
      ExitCodeInfo{ExitCode::interrupted, "stopped by SIGINT"},
      ExitCodeInfo{ExitCode::terminated, "stopped by SIGTERM"},
  };
  return kTable;
}

void fail_allocation() {
  allocation_failed = Clock::now();
  throw std::bad_alloc();
}

bool memory_used_up() {
  if (Clock::now() < allocation_failed.load() + kConsequences) return true;
  constexpr std::size_t kStackBytes = 8 << 20;
  void* room = ::mmap(nullptr, kStackBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return true;
  ::munmap(room, kStackBytes);
  return false;
}

std::pair<ExitCode, std::string> current_exception_end() {
  const std::exception_ptr fault = std::current_exception();
  if (!fault) {
    // What is thrown while another exception is on its way is seen by nobody. Troupe throws none:
    // the first one was the standard library's, which got no thread or no memory.
    if (memory_used_up()) return {ExitCode::no_resources, "out of memory"};
    if (std::uncaught_exceptions() > 0) {
      return {ExitCode::no_resources, "out of threads or memory: one failure followed another"};
    }
    return {ExitCode::internal, "internal: ended without an exception"};
  }
  try {
    std::rethrow_exception(fault);
  } catch (const std::bad_alloc&) {
    return {ExitCode::no_resources, "out of memory"};
  } catch (const std::system_error& error) {
    return {ExitCode::no_resources,
            std::string("out of threads, memory or files: ") + error.what()};
  } catch (const std::exception& error) {
    return {ExitCode::internal, std::string("internal: ") + error.what()};
  } catch (...) {
    return {ExitCode::internal, "internal: an exception of no known type"};
  }
}

ExitCode exit_code_of_signal(int signal) {
  constexpr int kSignalExit = 128;
  return static_cast<ExitCode>(kSignalExit + signal);
}

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
    case Errc::failed_precondition:  // before a job: what is there belongs to another
      return ExitCode::conflict;
    case Errc::resource_exhausted:
      return ExitCode::no_resources;
    case Errc::unavailable:
    case Errc::deadline_exceeded:
    case Errc::io_error:
      return ExitCode::unreachable;
    case Errc::permission_denied:
      return ExitCode::not_allowed;
    case Errc::internal:
      return ExitCode::internal;
    case Errc::cancelled:
    case Errc::abandoned:
    case Errc::stale_view:
    case Errc::not_finite:
      return ExitCode::failed;
  }
  return ExitCode::internal;
}

}  // namespace troupe::apps
