// SPDX-License-Identifier: Apache-2.0
// A folder for one test's files. In namespace troupe, so that the tests of every folder see it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace troupe {

/// A folder that is empty at the start and gone at the end.
class TestFolder {
 public:
  explicit TestFolder(const std::string& name);
  ~TestFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline TestFolder::TestFolder(const std::string& name)
    : path_(std::filesystem::temp_directory_path() /
            ("troupe-" + name + "-" + std::to_string(::getpid()))) {
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
}

inline TestFolder::~TestFolder() {
  std::filesystem::remove_all(path_);
}

}  // namespace troupe
