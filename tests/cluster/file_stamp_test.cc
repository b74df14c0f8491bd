// SPDX-License-Identifier: Apache-2.0
// A file's stamp changes with its content, its rights and itself; no file is not an unknown one.
#include "cluster/file_stamp.h"

#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::cluster {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a stamp sees what the time of writing does not") {
  const TestFolder folder("file-stamp-test");
  const fs::path file = folder.path() / "a";
  std::ofstream(file) << "one";
  const FileStamp first = stamp_of(file);
  CHECK(first.fault == 0);
  CHECK(first.bytes == 3);
  CHECK(stamp_of(file) == first);
  const auto written = fs::last_write_time(file);
  std::ofstream(folder.path() / "b") << "two";
  fs::last_write_time(folder.path() / "b", written);
  fs::rename(folder.path() / "b", file);
  const FileStamp second = stamp_of(file);
  CHECK(second.written_ns == first.written_ns);
  CHECK(second != first);
}

TEST_CASE("a file that nobody can look at is not one that is gone") {
  const TestFolder folder("file-stamp-test-fault");
  CHECK(stamp_of(folder.path() / "none").gone());
  fs::create_symlink("loop", folder.path() / "loop");
  const FileStamp loop = stamp_of(folder.path() / "loop");
  CHECK(loop.fault != 0);
  CHECK_FALSE(loop.gone());
}

}  // namespace
}  // namespace troupe::cluster
