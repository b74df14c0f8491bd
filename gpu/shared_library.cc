// SPDX-License-Identifier: Apache-2.0
// dlopen and dlsym.
#include "gpu/shared_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <string_view>

#include "base/file.h"

namespace troupe::gpu {
namespace {

using base::Errc;

/// The folders of TROUPE_CUDA_LIBRARY_FOLDERS, which CMake sets: colons between them.
std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  std::string_view rest = TROUPE_CUDA_LIBRARY_FOLDERS;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return folders;
}

}  // namespace

base::Result<SharedLibrary> SharedLibrary::open(const std::vector<std::string>& files) {
  std::vector<std::string> paths;
  std::string refused;
  for (const std::string& file : files) {
    paths.push_back(file);
    for (const std::string& folder : toolkit_folders()) {
      // The folders are the build machine's: on another one somebody else may have made them.
      const std::string path = folder + "/" + file;
      base::Status own = base::check_owner(folder);
      if (own.ok()) own = base::check_owner(path);
      if (own.ok()) paths.push_back(path);
      if (own.code() == Errc::permission_denied && refused.empty()) refused = "; " + own.text();
    }
  }
  base::Result<SharedLibrary> opened = open_of_system(paths);
  if (opened.ok() || refused.empty()) return opened;
  return base::error(opened.status().code(), "{}{}", opened.status().text(), refused);
}

base::Result<SharedLibrary> SharedLibrary::open_of_system(const std::vector<std::string>& files) {
  std::string reason;
  for (const std::string& file : files) {
    if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return SharedLibrary(handle, file);
    }
    const char* const problem = dlerror();  // also clears it
    if (reason.empty() && problem != nullptr) reason = problem;
  }
  return base::error(Errc::failed_precondition, "{}", reason);
}

base::Result<void*> SharedLibrary::find(const char* name) const {
  if (void* const address = dlsym(handle_, name)) return address;
  return base::error(Errc::failed_precondition, "{} has no function {}", file_, name);
}

}  // namespace troupe::gpu
