// SPDX-License-Identifier: Apache-2.0
// What lies in a coordinator's folder is seen, kept and written.
#include "cluster/access_files.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "trust/authority.h"

namespace troupe::cluster {
namespace {

namespace fs = std::filesystem;
using base::Errc;
using Catch::Contains;

constexpr std::int64_t kNow = 1'700'000'000;
constexpr trust::Validity kDay{kNow, kNow + 86'400};
constexpr trust::Validity kLong{0, 4'000'000'000};

template <typename Event>
std::vector<Event> all_of(const std::vector<control::CoordinatorEvent>& events) {
  std::vector<Event> found;
  for (const auto& event : events) {
    if (const auto* one = std::get_if<Event>(&event)) found.push_back(*one);
  }
  return found;
}

/// Another time of change, however coarse the file system's clock.
void touch(const fs::path& file) {
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(2));
}

TEST_CASE("tokens are told when they change, end or cannot be read") {
  const TestFolder folder("access-files-tokens");
  const fs::path tokens = folder.path() / AccessFiles::kTokens;
  AccessFiles files(folder.path(), nullptr);
  auto told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK_FALSE(told[0].needed);
  CHECK(files.look(kNow).empty());
  {
    auto book = trust::TokenBook::open(tokens).value();
    REQUIRE(book.make("alice", {trust::Right::read}, kDay).ok());
  }
  told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK(told[0].needed);
  REQUIRE(told[0].tokens.size() == 1);
  CHECK(told[0].tokens[0].refused.ok());
  CHECK(files.look(kNow + 1).empty());
  told = all_of<control::TokensRead>(files.look(kDay.until + 1));  // by the clock alone
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0].tokens[0].refused.text(), Contains("it was valid until 2023-11-15T22:13:20Z"));
  told = all_of<control::TokensRead>(files.look(kNow - 1));
  CHECK_THAT(told.at(0).tokens.at(0).refused.text(), Contains("it is valid from"));
  {
    auto book = trust::TokenBook::open(tokens).value();
    REQUIRE(book.revoke("alice", kNow).ok());
  }
  touch(tokens / "tokens.json");
  told = all_of<control::TokensRead>(files.look(kNow));
  CHECK_THAT(told.at(0).tokens.at(0).refused.text(), Contains("it was withdrawn on"));
  // Nor does a book that is moved away.
  fs::rename(tokens, folder.path() / "elsewhere");
  told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK(told[0].needed);
  CHECK(told[0].unread);
  fs::rename(folder.path() / "elsewhere", tokens);
  told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK_FALSE(told[0].unread);
  // What cannot be read opens no door.
  REQUIRE(base::write_file_atomically(tokens / "tokens.json", {}, base::FileMode::secret).ok());
  touch(tokens / "tokens.json");
  told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK(told[0].needed);
  CHECK(told[0].unread);
  CHECK(told[0].tokens.empty());
}

TEST_CASE("a book that never could be read opens no door when it goes") {
  const TestFolder folder("access-files-gone");
  const fs::path tokens = folder.path() / AccessFiles::kTokens;
  fs::create_directory(tokens);
  REQUIRE(base::write_file_atomically(tokens / "tokens.json", {}, base::FileMode::secret).ok());
  AccessFiles files(folder.path(), nullptr);
  auto told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK(told[0].unread);
  fs::remove(tokens / "tokens.json");
  for (const auto& each : all_of<control::TokensRead>(files.look(kNow + 1))) {
    CHECK((each.needed && each.unread));
  }
}

TEST_CASE("a book that cannot be looked at opens no door, from the start on") {
  const TestFolder folder("access-files-no-look");
  const fs::path tokens = folder.path() / AccessFiles::kTokens;
  const bool loop = GENERATE(true, false);
  if (loop) {
    fs::create_symlink(AccessFiles::kTokens, tokens);
  } else {
    std::ofstream(tokens) << "no folder";
  }
  AccessFiles files(folder.path(), nullptr);
  auto told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK(told[0].needed);
  CHECK(told[0].unread);
  CHECK(files.look(kNow + 1).empty());
  // What lay there may have been a book: without a new start the door stays shut.
  fs::remove(tokens);
  for (const auto& each : all_of<control::TokensRead>(files.look(kNow + 1))) {
    CHECK((each.needed && each.unread));
  }
  AccessFiles started_anew(folder.path(), nullptr);
  told = all_of<control::TokensRead>(started_anew.look(kNow + 1));
  REQUIRE(told.size() == 1);
  CHECK_FALSE(told[0].needed);
  CHECK_FALSE(told[0].unread);
}

TEST_CASE("files that others could read are taken once their rights are right") {
  const TestFolder folder("access-files-rights");
  const fs::path tokens = folder.path() / AccessFiles::kTokens;
  REQUIRE(trust::TokenBook::open(tokens)->make("alice", {trust::Right::read}, kDay).ok());
  const fs::path book = tokens / trust::TokenBook::kFile;
  fs::permissions(book, fs::perms::others_read, fs::perm_options::add);
  AccessFiles files(folder.path(), nullptr);
  CHECK(all_of<control::TokensRead>(files.look(kNow)).at(0).unread);
  fs::permissions(book, fs::perms::others_read, fs::perm_options::remove);
  auto told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK_FALSE(told[0].unread);
  CHECK(told[0].tokens.size() == 1);
  fs::permissions(book, fs::perms::others_read, fs::perm_options::add);
  CHECK(all_of<control::TokensRead>(files.look(kNow)).at(0).unread);
}

/// A cluster's authority, and the file of its coordinator.
struct Lab {
  explicit Lab(const std::string& name) : folder(name) {
    REQUIRE(trust::write_credentials(file, made).ok());
  }
  /// Of an agent that had a certificate.
  void revoke(const std::string& agent) {
    REQUIRE(authority.issue(trust::Role::agent, agent, kLong, kNow).ok());
    REQUIRE(authority.revoke(trust::Role::agent, agent, kNow).ok());
  }

  const TestFolder folder;
  trust::Authority authority = trust::Authority::create(folder.path() / "ca", "lab", kLong).value();
  const fs::path file = folder.path() / "c.pem";
  const trust::Credentials made =
      authority.issue(trust::Role::coordinator, "main", kLong, kNow).value();
};

TEST_CASE("with certificates people need tokens before one was made") {
  Lab lab("access-files-needed");
  AccessFiles files(lab.folder.path(),
                    IdentityFile::open(lab.file, trust::Role::coordinator).value());
  const auto told = all_of<control::TokensRead>(files.look(kNow));
  REQUIRE(told.size() == 1);
  CHECK(told[0].needed);
}

TEST_CASE("lists of what is revoked are checked, kept and told, older ones are refused") {
  Lab lab("access-files-denied");
  REQUIRE(lab.authority.issue(trust::Role::agent, "a", kLong, kNow).ok());
  const std::string older = lab.authority.deny_list();
  REQUIRE(lab.authority.revoke(trust::Role::agent, "a", kNow).ok());
  const std::string newer = lab.authority.deny_list();
  const fs::path state = lab.folder.path() / "state";
  fs::create_directory(state);
  const auto identity = IdentityFile::open(lab.file, trust::Role::coordinator).value();
  AccessFiles files(state, identity);
  const auto hand_in = [&](const std::string& pem) {
    files.take({7, pem, {"person 'ann'", "hands it in", "10.0.0.5:4711"}});
    const auto read = all_of<control::DenyListRead>(files.look(kNow));
    REQUIRE(read.size() == 1);
    CHECK(read[0].peer == 7);
    CHECK(read[0].change.has_value() == read[0].status.ok());
    if (read[0].change) CHECK(read[0].change->who == "person 'ann'");
    return read[0].status;
  };
  CHECK(hand_in("nonsense").code() == Errc::data_loss);
  auto foreign = trust::Authority::create(lab.folder.path() / "ca2", "lab", kLong).value();
  CHECK(hand_in(foreign.deny_list()).code() == Errc::permission_denied);
  CHECK_FALSE(fs::exists(state / AccessFiles::kDenied));
  CHECK(hand_in(newer).ok());
  CHECK(base::read_text_file(state / AccessFiles::kDenied, 1 << 20).value() == newer);
  CHECK(identity->renewed() != nullptr);
  CHECK(hand_in(older).code() == Errc::failed_precondition);
  CHECK(hand_in(newer).ok());
  CHECK(files.look(kNow).empty());

  // It knows the list of its own file, too, though nobody has handed that in.
  const auto renewed = lab.authority.renew(lab.made, kLong, kNow).value();
  REQUIRE(trust::write_credentials(lab.file, renewed).ok());
  const fs::path other = lab.folder.path() / "other";
  fs::create_directory(other);
  AccessFiles first(other, IdentityFile::open(lab.file, trust::Role::coordinator).value());
  first.take({7, older, {}});
  CHECK(all_of<control::DenyListRead>(first.look(kNow)).at(0).status.text() ==
        "list 1 of what is revoked: the coordinator has list 2");
  CHECK_FALSE(fs::exists(other / AccessFiles::kDenied));

  // The next life of the coordinator knows it from its folder, and a file put there is taken, too.
  AccessFiles again(state, IdentityFile::open(lab.file, trust::Role::coordinator).value());
  auto read = all_of<control::DenyListRead>(again.look(kNow));
  REQUIRE(read.size() == 1);
  CHECK(read[0].peer == 0);
  CHECK(read[0].pem == newer);
  CHECK_FALSE(read[0].change);  // nobody has changed it since
  lab.revoke("b");
  REQUIRE(base::write_file_atomically(state / AccessFiles::kDenied,
                                      std::as_bytes(std::span(lab.authority.deny_list())))
              .ok());
  touch(state / AccessFiles::kDenied);
  read = all_of<control::DenyListRead>(again.look(kNow));
  REQUIRE(read.size() == 1);
  CHECK(read[0].pem == lab.authority.deny_list());
  REQUIRE(read[0].change);
  CHECK(read[0].change->who == "somebody");
  CHECK(read[0].change->from == (state / AccessFiles::kDenied).string());

  AccessFiles plain(lab.folder.path(), nullptr);
  plain.take({7, newer, {}});
  CHECK(all_of<control::DenyListRead>(plain.look(kNow)).at(0).status.code() ==
        Errc::failed_precondition);
}

TEST_CASE("what is revoked holds at once, and is written when the disk takes it") {
  Lab lab("access-files-full");
  lab.revoke("a");
  const std::string list = lab.authority.deny_list();
  const fs::path state = lab.folder.path() / "state";
  const fs::path denied = state / AccessFiles::kDenied;
  fs::create_directories(denied / "in the way");  // no file takes its place
  const auto identity = IdentityFile::open(lab.file, trust::Role::coordinator).value();
  AccessFiles files(state, identity);
  files.take({7, list + list, {}});  // no program would take its second
  auto read = all_of<control::DenyListRead>(files.look(kNow));
  REQUIRE(read.size() == 1);
  CHECK(read[0].status.code() == Errc::data_loss);
  files.take({7, list, {}});
  read = all_of<control::DenyListRead>(files.look(kNow));
  REQUIRE(read.size() == 1);
  CHECK(read[0].status.ok());
  CHECK(read[0].pem == list);
  CHECK(identity->renewed() != nullptr);
  CHECK(fs::is_directory(denied));
  files.look(kNow + 1);
  fs::remove_all(denied);
  files.look(kNow + 2);
  CHECK(base::read_text_file(denied, 1 << 20).value() == list);
}

TEST_CASE("the list of a renewed certificate is told as one of the folder is") {
  Lab lab("access-files-renewed");
  const auto revoke_and_renew = [&](const std::string& name) {
    lab.revoke(name);
    REQUIRE(trust::write_credentials(lab.file, lab.authority.renew(lab.made, kLong, kNow).value())
                .ok());
  };
  const fs::path denied = lab.folder.path() / AccessFiles::kDenied;
  const std::string first = lab.authority.deny_list();
  REQUIRE(base::write_file_atomically(denied, std::as_bytes(std::span(first))).ok());
  revoke_and_renew("a");
  const auto identity = IdentityFile::open(lab.file, trust::Role::coordinator).value();
  AccessFiles files(lab.folder.path(), identity);
  auto read = all_of<control::DenyListRead>(files.look(kNow));
  REQUIRE(read.size() == 1);  // not the folder's, which is older
  CHECK(read[0].pem == lab.authority.deny_list());
  CHECK_FALSE(read[0].change);
  CHECK(files.look(kNow).empty());
  revoke_and_renew("b");
  REQUIRE(identity->renewed() != nullptr);
  read = all_of<control::DenyListRead>(files.look(kNow));
  REQUIRE(read.size() == 1);
  CHECK(read[0].pem == lab.authority.deny_list());
  REQUIRE(read[0].change);
  CHECK(read[0].change->from == lab.file.string());
}

TEST_CASE("changes are appended as lines of JSON, to a file that was moved away, too") {
  const TestFolder folder("access-files-audit");
  AccessFiles files(folder.path(), nullptr);
  const fs::path log = folder.path() / AccessFiles::kAudit;
  files.note({"person 'alice'", "submits job 'x'\n", "10.0.0.5:4711", {}});
  files.look(kNow);
  files.note({"somebody", "wants to \xff", "here", base::error(Errc::permission_denied, "no")});
  files.look(kNow);
  CHECK(base::check_secret(log).ok());
  std::istringstream lines(base::read_text_file(log, 1 << 20).value());
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  CHECK_FALSE(std::getline(lines, third));
  const auto line = nlohmann::json::parse(first);
  CHECK(line["time"] == "2023-11-14T22:13:20Z");
  CHECK(line["who"] == "person 'alice'");
  CHECK(line["what"] == "submits job 'x'\n");
  CHECK(line["from"] == "10.0.0.5:4711");
  CHECK_FALSE(line.contains("refused"));
  CHECK(nlohmann::json::parse(second)["refused"] == "no");
  fs::rename(log, folder.path() / "old");
  for (std::size_t i = 0; i < AccessFiles::kAuditsMax + 3; ++i) {
    files.note({i % 2 == 0 ? "a" : "d", "b", "c", {}});
  }
  files.look(kNow);
  const std::string text = base::read_text_file(log, 1 << 24).value();
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) ==
        AccessFiles::kAuditsMax + 1);
  CHECK_THAT(text, Contains("3 lines left out"));
}

TEST_CASE("one person takes at most half of the places of changes that wait") {
  const TestFolder folder("access-files-audit-share");
  AccessFiles files(folder.path(), nullptr);
  const fs::path log = folder.path() / AccessFiles::kAudit;
  const auto flood_and_look = [&](std::int64_t now) {
    for (std::size_t i = 0; i < AccessFiles::kAuditsMax; ++i) files.note({"ann", "b", "c", {}});
    files.note({"ben", "stops job 'x'", "c", {}});
    fs::remove(log);
    files.look(now);
    return base::read_text_file(log, 1 << 24).value();
  };
  for (const std::int64_t now : {kNow, kNow + 1}) {  // what is written takes no place any more
    const std::string text = flood_and_look(now);
    CHECK_THAT(text, Contains("stops job 'x'"));
    CHECK_THAT(text, Contains("5,000 lines left out"));
    CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) ==
          AccessFiles::kAuditsOfOneMax + 2);
  }
}

TEST_CASE("lines that wait for a full disk count as one person's, too") {
  const TestFolder folder("access-files-audit-share-full");
  AccessFiles files(folder.path(), nullptr);
  const fs::path log = folder.path() / AccessFiles::kAudit;
  fs::create_directory(log);  // nothing can be written there
  for (std::int64_t look = 0; look < 4; ++look) {
    for (std::size_t i = 0; i < AccessFiles::kAuditsMax / 2; ++i) {
      files.note({"ann", "b", "c", {}});
    }
    files.look(kNow + look);
  }
  files.note({"ben", "stops job 'x'", "c", {}});
  fs::remove(log);
  files.look(kNow + 10);
  const std::string text = base::read_text_file(log, 1 << 24).value();
  CHECK_THAT(text, Contains("stops job 'x'"));
  CHECK_THAT(text, Contains("15,000 lines left out"));
}

/// While it lives this process's files grow no further than to `bytes`.
class FilesEndAt {
 public:
  explicit FilesEndAt(std::uint64_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit most{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &most) == 0);
  }
  ~FilesEndAt() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_CASE("a full disk leaves no half line, and what waited is written later") {
  const TestFolder folder("access-files-audit-full");
  AccessFiles files(folder.path(), nullptr);
  const fs::path log = folder.path() / AccessFiles::kAudit;
  const std::string old(1'000'000, 'x');
  std::ofstream(log) << old << "\n";
  files.note({"person 'ann'", "stops job 'x'", "10.0.0.5:4711", {}});
  {
    const FilesEndAt limit(old.size() + 20);
    files.look(kNow);
    CHECK(fs::file_size(log) == old.size() + 1);
    for (std::size_t i = 0; i < AccessFiles::kAuditsMax; ++i) {
      files.note({i % 2 == 0 ? "a" : "d", "b", "c", {}});
    }
    files.look(kNow + 1);
    CHECK(fs::file_size(log) == old.size() + 1);
  }
  files.look(kNow + 2);
  const std::string text = base::read_text_file(log, 1 << 24).value().substr(old.size() + 1);
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) ==
        AccessFiles::kAuditsMax + 1);
  const auto first = nlohmann::json::parse(text.substr(0, text.find('\n')));
  CHECK(first["what"] == "stops job 'x'");
  CHECK(first["time"] == "2023-11-14T22:13:20Z");  // when it was told
  CHECK_THAT(text, Contains("\"1 line left out\""));
  const auto size = fs::file_size(log);
  files.look(kNow + 3);
  CHECK(fs::file_size(log) == size);
}

TEST_CASE("a full disk is tried once a second, and at the end what is lost is counted") {
  const TestFolder folder("access-files-audit-end");
  AccessFiles files(folder.path(), nullptr);
  const fs::path log = folder.path() / AccessFiles::kAudit;
  const std::string old(1'000'000, 'x');
  std::ofstream(log) << old << "\n";
  files.note({"person 'ann'", "stops job 'x'", "10.0.0.5:4711", {}});
  {
    const FilesEndAt limit(old.size() + 20);
    files.look(kNow);
    files.note({"person 'ann'", "stops job 'y'", "10.0.0.5:4711", {}});
    files.look(kNow);
    CHECK(files.end(kNow) == 2);
  }
  files.look(kNow);  // the same second
  CHECK(fs::file_size(log) == old.size() + 1);
  CHECK(files.end(kNow) == 0);
  const std::string text = base::read_text_file(log, 1 << 24).value().substr(old.size() + 1);
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
}

}  // namespace
}  // namespace troupe::cluster
