// SPDX-License-Identifier: Apache-2.0
// Shared libraries that a program finds while it runs, so that it starts where they are not.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace troupe::gpu {

/// A library that stays loaded until the process ends: its threads and handles may outlive every
/// owner. Copies name the same library; any thread.
class SharedLibrary {
 public:
  /// Loads the first of `files` ("libcudnn.so.9", newest first) that is found: where the system's
  /// loader looks, then in the folders of the toolkit that this program was built with.
  /// failed_precondition says why the first one could not be loaded.
  static base::Result<SharedLibrary> open(const std::vector<std::string>& files);

  /// Only where the system's loader looks: for what comes with the driver. A toolkit's folder may
  /// be anybody's, and this library is loaded by programs that hold keys.
  static base::Result<SharedLibrary> open_of_system(const std::vector<std::string>& files);

  /// A function of the library, as type F*; failed_precondition names it where it is missing.
  template <typename F>
  base::Result<F*> function(const char* name) const {
    TROUPE_TRY_ASSIGN(void* const address, find(name));
    return reinterpret_cast<F*>(address);
  }
  const std::string& file() const { return file_; }

 private:
  SharedLibrary(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}
  base::Result<void*> find(const char* name) const;

  void* handle_;
  std::string file_;
};

}  // namespace troupe::gpu
