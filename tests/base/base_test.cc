// SPDX-License-Identifier: Apache-2.0
// Known answers of base's hashes and random numbers; shapes, buffers and files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "base/shape.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::base {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_CASE("hashes give their standard answers", "[hash]") {
  CHECK(crc32c(bytes_of("123456789")) == 0xe3069283);
  CHECK(crc32c(bytes_of("6789"), crc32c(bytes_of("12345"))) == 0xe3069283);
  Sha256 sha;
  sha.update("abc");
  CHECK(to_hex(sha.finish()) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("philox gives its published answer for zeros", "[random]") {
  const auto words = philox(RandomKey{0}, 0, 0, 0);
  CHECK(words[0] == 0x6627e8d5);
  CHECK(words[1] == 0xe169c58d);
  CHECK(words[2] == 0xbc57ac4c);
  CHECK(words[3] == 0x9b00dbd8);
}

TEST_CASE("permutations hold every number once and depend on key and step", "[random]") {
  const RandomKey key = random_key(7, "data");
  const auto order = permutation(key, 3, 1000);
  CHECK(std::set<std::uint64_t>(order.begin(), order.end()).size() == 1000);
  CHECK(order == permutation(key, 3, 1000));
  CHECK(order != permutation(key, 4, 1000));
  CHECK(order != permutation(random_key(8, "data"), 3, 1000));
}

TEST_CASE("partial shapes merge or contradict each other", "[shape]") {
  const auto merged = merge_shapes(Shape{32, kUnknownDim}, Shape{kUnknownDim, 10});
  REQUIRE(merged.ok());
  CHECK(merged.value() == Shape{32, 10});
  CHECK(merge_shapes(Shape::unknown(), Shape{2}).value() == Shape{2});
  const auto conflict = merge_shapes(Shape{2, 3}, Shape{2, 4});
  REQUIRE_FALSE(conflict.ok());
  CHECK(conflict.status().text() == "shapes (2, 3) and (2, 4) contradict each other");
}

TEST_CASE("a shape with too many axes or elements is an error, not an abort", "[shape]") {
  const Shape nine{1, 1, 1, 1, 1, 1, 1, 1, 1};
  CHECK(nine.too_long());
  CHECK_FALSE(nine.complete());
  CHECK(nine.to_string() == "(9 axes)");
  CHECK(check_shape(nine).text() == "the shape (9 axes) has more than 8 axes");
  Shape grown{2, 2, 2, 2, 2, 2, 2, 2};
  CHECK(check_shape(grown).ok());
  for (int i = 0; i < 3; ++i) grown.push_back(2);
  CHECK(grown.to_string() == "(11 axes)");
  CHECK(merge_shapes(Shape::unknown(), nine).status().code() == Errc::invalid_argument);
  CHECK(merge_shapes(grown, Shape{2}).status().code() == Errc::invalid_argument);
  CHECK_FALSE(Shape::unknown().too_long());
  CHECK(check_shape(Shape::unknown()).ok());

  const std::int64_t huge = std::int64_t{1} << 30;
  CHECK(check_shape({huge, 1024}).ok());
  CHECK(check_shape({huge, huge, 4}).text() ==
        "the shape (1073741824, 1073741824, 4) has more than 2^40 elements");
  // What is known decides; an extent of zero hides nothing, since parts are multiplied too.
  CHECK_FALSE(check_shape({kUnknownDim, huge, huge}).ok());
  CHECK_FALSE(check_shape({0, huge, huge}).ok());
  CHECK(check_shape({0, 3, kUnknownDim}).ok());
}

TEST_CASE("shapes are read in every form people write", "[shape]") {
  CHECK(parse_shape("(3, 3)").value() == Shape{3, 3});
  CHECK(parse_shape("[1,2,?]").value() == Shape{1, 2, kUnknownDim});
  CHECK(parse_shape("(5,)").value() == Shape{5});
  CHECK(parse_shape("7").value() == Shape{7});
  CHECK(parse_shape("()").value() == Shape{});
  for (const char* bad : {"(a)", "(1 2)", "1,,2", "(1,2", "-5"}) CHECK_FALSE(parse_shape(bad).ok());
  CHECK(parse_shape("1,1,1,1,1,1,1,1,1").status().text() ==
        "the shape (9 axes) has more than 8 axes");
  CHECK_FALSE(parse_shape("(1073741824, 1073741824)").ok());
}

TEST_CASE("slices of a buffer keep the block alive", "[buffer]") {
  Buffer tail;
  {
    const Buffer whole = make_host_buffer(256);
    tail = whole.slice(128, 64);
    CHECK(tail.same_block(whole));
    CHECK(tail.data() == whole.data() + 128);
  }
  CHECK(tail.use_count() == 1);
  CHECK(tail.as<float>().size() == 16);
}

TEST_CASE("a file is read whole, a pipe up to the limit, a folder not at all", "[file]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string text(40'000, 'x');
  REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const std::string pipe = "/proc/self/fd/" + std::to_string(ends[0]);
  CHECK(read_text_file(pipe, text.size(), FileKind::any).value() == text);
  CHECK(read_text_file(pipe, text.size()).status().code() == Errc::invalid_argument);
  ::close(ends[0]);
  CHECK(read_text_file("/proc/self/cmdline", 1 << 20)->size() > 0);  // a file that says 0 bytes
  const auto endless = read_text_file("/dev/zero", 1 << 20, FileKind::any);
  CHECK(endless.status().code() == Errc::resource_exhausted);
  CHECK(read_text_file("/dev/zero", 1 << 20).status().code() == Errc::invalid_argument);
  CHECK(read_text_file("/", 10).status().code() == Errc::invalid_argument);
  CHECK(read_text_file("/dev/null/x", 10).status().code() == Errc::invalid_argument);
  CHECK(read_text_file("/nowhere", 10).status().code() == Errc::not_found);
  CHECK(check_secret("/").text() == "/: is a folder, not a file");
  // Nothing lies at address 0: the read fails as one of a broken disk does, which is no damage.
  CHECK(read_text_file("/proc/self/mem", 10).status().code() == Errc::io_error);
}

TEST_CASE("what others may exchange is not one's own", "[file]") {
  const TestFolder folder("file-owner");
  const auto path = folder.path() / "book";
  REQUIRE(write_file_atomically(path, {}).ok());
  CHECK(check_owner(path).ok());
  CHECK(check_owner("/").ok());     // root's
  CHECK(check_owner("/tmp").ok());  // there nobody exchanges what is another one's
  CHECK(check_owner(folder.path() / "none").code() == Errc::not_found);
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  CHECK_THAT(check_owner(path).text(), Catch::Contains("anybody may write there (mode 666)"));
  if (::geteuid() != 0) return;  // only root gives files away
  REQUIRE((::chmod(path.c_str(), 0600) == 0 && ::chown(path.c_str(), 12345, 12345) == 0));
  CHECK_THAT(check_owner(path).text(), Catch::Contains("belongs to user 12345"));
  CHECK(check_owner(path, folder.path()).code() == Errc::permission_denied);
  REQUIRE(::chown(folder.path().c_str(), 12345, 12345) == 0);
  CHECK(check_owner(path, folder.path()).ok());
  CHECK(check_owner(path).code() == Errc::permission_denied);
  CHECK(read_secret(path, 10, FileKind::regular, folder.path()).ok());
  CHECK(read_secret(path, 10, FileKind::regular, "").status().code() == Errc::permission_denied);
}

TEST_CASE("a secret is read where only its owner may read it", "[file]") {
  const TestFolder folder("file-secret");
  const auto path = folder.path() / "token";
  const std::string text = "troupe_1";
  const auto bytes = std::as_bytes(std::span(text));
  REQUIRE(write_file_atomically(path, bytes, FileMode::secret).ok());
  CHECK(read_secret(path, 8).value() == text);
  CHECK(read_secret(path, 8, FileKind::regular, folder.path()).value() == text);
  CHECK(read_secret(path, 7).status().code() == Errc::resource_exhausted);
  CHECK(read_secret("/", 8).status().text() == "/: is a folder, not a file");
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0644) == 0);
  CHECK(read_secret(pipe, 8, FileKind::any).status().code() == Errc::permission_denied);
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK_THAT(read_secret(path, 8).status().text(),
             Catch::Contains("others than its owner may use it (mode 640)"));
}

TEST_CASE("a pipe that nobody writes is no file, and nobody waits for it", "[file]") {
  const TestFolder folder("file-pipe");
  const auto path = folder.path() / "t.idx";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const Status status = read_text_file(path, 100).status();
  CHECK(status.code() == Errc::invalid_argument);
  CHECK(status.text() == path.string() + ": is no regular file");
}

TEST_CASE("a link is not followed where none may stand in a file's place", "[file]") {
  const TestFolder folder("file-no-link");
  const auto path = folder.path() / "file";
  REQUIRE(write_file_atomically(path, std::as_bytes(std::span(std::string_view("text")))).ok());
  CHECK(read_text_file(path, 100, FileKind::no_link).value() == "text");
  const auto link = folder.path() / "link";
  std::filesystem::create_symlink("file", link);
  CHECK(read_text_file(link, 100).value() == "text");
  const Status status = read_text_file(link, 100, FileKind::no_link).status();
  CHECK(status.code() == Errc::invalid_argument);
  CHECK(status.text() == link.string() + ": is a symbolic link, which is not followed");
}

TEST_CASE("a line of the log is bounded and obeyed by no terminal", "[log]") {
  const TestFolder folder("log-line");
  const auto path = folder.path() / "log";
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::dup2(file, STDERR_FILENO) == STDERR_FILENO);
  log_line(LogLevel::warn, "a\nb\"\x1b\x7f\u009b" + std::string(100'000, 'x'));
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(file);
  const std::string line = read_text_file(path, 1 << 20).value();
  CHECK(line.find("msg=\"a\\nb\\\"???xxx") != std::string::npos);
  CHECK(line.ends_with("xxx...\"\n"));
  CHECK(line.size() < 8'400);
}

TEST_CASE("warnings about strangers are bounded, and what is left out is counted", "[log]") {
  LogBudget budget;
  const auto warned = [] { return log_line_counts()[static_cast<std::size_t>(LogLevel::warn)]; };
  const std::uint64_t before = warned();
  for (std::uint64_t i = 0; i < 3 * LogBudget::kLinesMax; ++i) budget.warn(5, "a stranger");
  CHECK(warned() == before + LogBudget::kLinesMax);
  budget.warn(5 + LogBudget::kWindowMs, "a stranger");
  CHECK(warned() == before + LogBudget::kLinesMax + 1);
}

TEST_CASE("an abandoned atomic file leaves the old content and no litter", "[file]") {
  const auto folder = std::filesystem::temp_directory_path() / "troupe-base-test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto path = folder / "x";
  REQUIRE(write_file_atomically(path, bytes_of("old")).ok());
  {
    AtomicFile file(path);
    REQUIRE(file.open().ok());
    REQUIRE(file.write(bytes_of("new, but never committed")).ok());
  }
  CHECK(read_text_file(path, 100).value() == "old");
  CHECK(read_text_file(path, 2).status().code() == Errc::resource_exhausted);
  CHECK(read_text_file(folder / "y", 2).status().code() == Errc::not_found);
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what is no regular file is not replaced, a link's target is", "[file]") {
  const auto folder = std::filesystem::temp_directory_path() / "troupe-base-atomic";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string text = "new";
  const auto bytes = std::as_bytes(std::span(text));
  CHECK(write_file_atomically("/dev/null", bytes).code() == Errc::invalid_argument);
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(write_file_atomically(folder, bytes).code() == Errc::invalid_argument);
  REQUIRE(write_file_atomically(folder / "target", bytes).ok());
  std::filesystem::create_symlink("target", folder / "link");
  const std::string newer = "newer";
  REQUIRE(write_file_atomically(folder / "link", std::as_bytes(std::span(newer))).ok());
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(read_text_file(folder / "target", 100).value() == newer);
  std::filesystem::remove_all(folder);
}

TEST_CASE("where others write, too, a link is replaced and its target is left alone", "[file]") {
  const TestFolder folder("file-links");
  const auto victim = folder.path() / "victim";
  const auto file = folder.path() / "out" / "file";
  std::filesystem::create_directory(folder.path() / "out");
  REQUIRE(write_file_atomically(victim, bytes_of("mine")).ok());
  for (const auto& target : {victim, folder.path() / "missing", folder.path()}) {
    std::filesystem::remove(file);
    std::filesystem::create_symlink(target, file);
    REQUIRE(write_file_atomically(file, bytes_of("new"), FileMode::shared, LinkRule::replace).ok());
    CHECK_FALSE(std::filesystem::is_symlink(file));
    CHECK(read_text_file(file, 100).value() == "new");
  }
  CHECK(read_text_file(victim, 100).value() == "mine");
  CHECK_FALSE(std::filesystem::exists(folder.path() / "missing"));
}

TEST_CASE("a path is inside of a folder by where it leads, not by how it is written", "[file]") {
  namespace fs = std::filesystem;
  const TestFolder folder("inside");
  const fs::path root = folder.path() / "root";
  fs::create_directories(root / "deep");
  fs::create_directory(folder.path() / "other");
  fs::create_directory_symlink(folder.path() / "other", root / "out");
  fs::create_directory_symlink(root, folder.path() / "in");
  fs::create_symlink(folder.path() / "later", root / "dangling");
  for (const fs::path& path : {root, root / "deep", root / "new" / "file", root / "deep" / "..",
                               folder.path() / "in" / "deep", folder.path() / "in" / "new"}) {
    INFO(path);
    CHECK(check_inside(path, root).ok());
    CHECK(check_inside(path, folder.path() / "in").ok());
  }
  for (const fs::path& path :
       {folder.path(), folder.path() / "other", folder.path() / "rootless", root / "out",
        root / "out" / "new", root / "dangling", root / "dangling" / "new", root / "..",
        root / "new" / ".." / ".." / "other"}) {
    INFO(path);
    const Status status = check_inside(path, root);
    CHECK(status.code() == Errc::permission_denied);
    CHECK(status.text() == path.string() + ": lies outside of " + root.string());
    CHECK(check_inside(path, "").ok());
  }
  CHECK(check_inside(root, folder.path() / "missing").code() == Errc::not_found);
}

}  // namespace
}  // namespace troupe::base
