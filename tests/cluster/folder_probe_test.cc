// SPDX-License-Identifier: Apache-2.0
// A probe is written, read back and removed; nothing else can be reached with one.
#include "cluster/folder_probe.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::cluster {
namespace {

using base::Errc;
using base::Status;
namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder with a file that nobody should touch.
struct Place {
  Place() {
    fs::create_directory(folder.path() / "out");
    std::ofstream(victim) << "precious";
  }
  Status ask(bool write, const std::string& nonce, const std::string& root = "") const {
    return probe_folder({"x", 1, path, file, nonce, write}, root);
  }
  bool untouched() const { return text_of(victim) == "precious"; }
  const TestFolder folder{"probe"};
  const fs::path victim = folder.path() / "victim";
  std::string path = (folder.path() / "out").string();
  std::string file = ".probe-x-g1";
};

TEST_CASE("a probe is written, read back and removed", "[probe]") {
  const Place place;
  const fs::path file = fs::path(place.path) / place.file;
  REQUIRE(place.ask(true, "x").ok());
  CHECK(text_of(file) == "x");
  CHECK(place.ask(false, "x").ok());
  const Status other = place.ask(false, "y");
  CHECK(other.code() == Errc::failed_precondition);
  CHECK(other.text() == file.string() + " holds something else");
  REQUIRE(place.ask(true, "y").ok());  // what an earlier run has left is in nobody's way
  CHECK(text_of(file) == "y");
  REQUIRE(place.ask(true, "").ok());
  CHECK_FALSE(fs::exists(file));
  CHECK(place.ask(true, "").ok());
  CHECK(place.ask(false, "x").code() == Errc::not_found);
}

TEST_CASE("a folder that is missing is made to write, and named to read", "[probe]") {
  Place place;
  place.path += "/a/b";
  const Status missing = place.ask(false, "x");
  CHECK(missing.code() == Errc::not_found);
  CHECK_THAT(missing.text(), Catch::StartsWith(place.path + ": cannot open the folder"));
  CHECK(place.ask(true, "x").ok());
  CHECK(place.ask(false, "x").ok());
}

TEST_CASE("a folder that cannot be made says why", "[probe]") {
  Place place;
  place.path = (place.victim / "a" / "b").string();
  const Status refused = place.ask(true, "x");
  CHECK(refused.text() == place.path + ": cannot make the folder: Not a directory");
}

TEST_CASE("a probe reaches no file of another name", "[probe]") {
  Place place;
  SECTION("an absolute path") {
    place.file = place.victim.string();
  }
  SECTION("a way out") {
    place.file = "../victim";
  }
  SECTION("a way out behind the name") {
    place.file = ".probe-/../../victim";
  }
  SECTION("another name") {
    place.file = "victim";
  }
  SECTION("no name") {
    place.file = "";
  }
  SECTION("the prefix alone") {
    place.file = ".probe-";
  }
  SECTION("a line of its own") {
    place.file = ".probe-x\ny";
  }
  SECTION("a long one") {
    place.file = ".probe-" + std::string(200, 'x');
  }
  SECTION("a folder somewhere") {
    place.path = "out";
  }
  place.path = place.path == "out" ? place.path : place.folder.path().string();
  for (const bool write : {true, false}) {
    CHECK(place.ask(write, "x").code() == Errc::invalid_argument);
  }
  CHECK(place.ask(true, "").code() == Errc::invalid_argument);
  CHECK(place.untouched());
}

TEST_CASE("a probe writes nothing but a plain name", "[probe]") {
  const Place place;
  const std::string longest(64, 'x');
  for (const std::string& nonce :
       {std::string("two words"), std::string("#!/bin/sh\n"), longest + "x", std::string("a/b")}) {
    CHECK(place.ask(true, nonce).code() == Errc::invalid_argument);
  }
  CHECK(fs::is_empty(place.path));
}

TEST_CASE("a probe follows no link and waits for no pipe", "[probe]") {
  const Place place;
  const fs::path file = fs::path(place.path) / place.file;
  SECTION("a link to a file") {
    fs::create_symlink(place.victim, file);
    CHECK_FALSE(place.ask(false, "precious").ok());
    CHECK(place.ask(true, "x").ok());
    CHECK_FALSE(fs::is_symlink(file));
  }
  SECTION("a link to nothing") {
    fs::create_symlink(place.folder.path() / "new", file);
    CHECK(place.ask(true, "x").ok());
    CHECK_FALSE(fs::exists(place.folder.path() / "new"));
  }
  SECTION("a pipe") {
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    CHECK(place.ask(false, "x").code() == Errc::invalid_argument);
    CHECK(place.ask(true, "x").ok());
  }
  CHECK(place.untouched());
}

TEST_CASE("with a root no probe leaves it", "[probe]") {
  Place place;
  const std::string root = place.path;
  CHECK(place.ask(true, "x", root).ok());
  place.path = root + "/new/folder";
  CHECK(place.ask(true, "x", root).ok());
  fs::create_directory_symlink(place.folder.path(), root + "/way-out");
  for (const std::string& path :
       {place.folder.path().string(), root + "/way-out", root + "/way-out/deep", root + "/..",
        root + "/new/../../deep", root + "x"}) {
    INFO(path);
    place.path = path;
    CHECK(place.ask(true, "x", root).code() == Errc::permission_denied);
    CHECK(place.ask(false, "x", root).code() == Errc::permission_denied);
  }
  CHECK(fs::exists(place.folder.path() / "out"));
  CHECK_FALSE(fs::exists(place.folder.path() / "deep"));
}

}  // namespace
}  // namespace troupe::cluster
