// SPDX-License-Identifier: Apache-2.0
// A program's identity is read from its file, and again when that is replaced.
#include "cluster/identity_file.h"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "trust/authority.h"

namespace troupe::cluster {
namespace {

constexpr trust::Validity kLong{0, 4'000'000'000};

/// Another time of change, however coarse the file system's clock.
void touch(const std::filesystem::path& file) {
  std::filesystem::last_write_time(
      file, std::filesystem::last_write_time(file) + std::chrono::seconds(2));
}

TEST_CASE("a replaced identity file is read again, once, and only of the same holder") {
  const TestFolder folder("identity-file-test");
  const auto file = folder.path() / "a.pem";
  auto authority = trust::Authority::create(folder.path() / "ca", "lab", kLong).value();
  const auto first = authority.issue(trust::Role::agent, "a", kLong, kLong.from).value();
  REQUIRE(trust::write_credentials(file, first).ok());
  const auto identity = IdentityFile::open(file, trust::Role::agent).value();
  CHECK(identity->credentials().info.serial == first.info.serial);
  const auto before = identity->tls();
  CHECK(before->identity() == first.info.identity);
  CHECK(identity->renewed() == nullptr);

  const auto second = authority.renew(first, kLong, kLong.from).value();
  REQUIRE(trust::write_credentials(file, second).ok());
  touch(file);
  const auto after = identity->renewed();
  REQUIRE(after != nullptr);
  CHECK(after != before);
  CHECK(after == identity->tls());
  CHECK(identity->credentials().info.serial == second.info.serial);
  CHECK(identity->renewed() == nullptr);

  const auto other = authority.issue(trust::Role::agent, "b", kLong, kLong.from).value();
  REQUIRE(trust::write_credentials(file, other).ok());
  touch(file);
  CHECK(identity->renewed() == nullptr);
  CHECK(identity->tls() == after);
  std::ofstream(file) << "nothing";
  touch(file);
  CHECK(identity->renewed() == nullptr);
  std::filesystem::remove(file);
  CHECK(identity->renewed() == nullptr);
  CHECK(identity->credentials().info.serial == second.info.serial);
}

TEST_CASE("a replaced identity that others may read is taken once its rights are right") {
  const TestFolder folder("identity-file-test-rights");
  const auto file = folder.path() / "a.pem";
  auto authority = trust::Authority::create(folder.path() / "ca", "lab", kLong).value();
  const auto first = authority.issue(trust::Role::agent, "a", kLong, kLong.from).value();
  REQUIRE(trust::write_credentials(file, first).ok());
  const auto identity = IdentityFile::open(file, trust::Role::agent).value();
  const auto second = authority.renew(first, kLong, kLong.from).value();
  REQUIRE(trust::write_credentials(file, second).ok());
  const auto others = std::filesystem::perms::others_read;
  std::filesystem::permissions(file, others, std::filesystem::perm_options::add);
  CHECK(identity->renewed() == nullptr);
  CHECK(identity->renewed() == nullptr);
  std::filesystem::permissions(file, others, std::filesystem::perm_options::remove);
  CHECK(identity->renewed() != nullptr);
  CHECK(identity->credentials().info.serial == second.info.serial);
  CHECK(identity->renewed() == nullptr);
}

TEST_CASE("an identity of another role, or that others may read, is refused") {
  const TestFolder folder("identity-file-test-bad");
  const auto file = folder.path() / "a.pem";
  auto authority = trust::Authority::create(folder.path() / "ca", "lab", kLong).value();
  const auto made = authority.issue(trust::Role::agent, "a", kLong, kLong.from).value();
  REQUIRE(trust::write_credentials(file, made).ok());
  const auto refused = IdentityFile::open(file, trust::Role::coordinator).status();
  CHECK(refused.code() == base::Errc::permission_denied);
  CHECK_THAT(refused.text(),
             Catch::EndsWith("is of agent 'a' of cluster 'lab', not of the role coordinator"));
  std::filesystem::permissions(file, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  CHECK(IdentityFile::open(file, trust::Role::agent).status().code() ==
        base::Errc::permission_denied);
  CHECK(IdentityFile::open(folder.path() / "none.pem", trust::Role::agent).status().code() ==
        base::Errc::not_found);
}

TEST_CASE("a newer list of what is revoked stays when the file is replaced") {
  const TestFolder folder("identity-file-test-deny");
  const auto file = folder.path() / "a.pem";
  auto authority = trust::Authority::create(folder.path() / "ca", "lab", kLong).value();
  const auto first = authority.issue(trust::Role::agent, "a", kLong, kLong.from).value();
  REQUIRE(authority.issue(trust::Role::agent, "b", kLong, kLong.from).ok());
  REQUIRE(trust::write_credentials(file, first).ok());
  const auto identity = IdentityFile::open(file, trust::Role::agent).value();
  REQUIRE(authority.revoke(trust::Role::agent, "b", 1'000).ok());
  CHECK(identity->use_deny_list("nothing").code() == base::Errc::data_loss);
  CHECK(identity->renewed() == nullptr);
  REQUIRE(identity->use_deny_list(authority.deny_list()).ok());
  CHECK(identity->renewed() == identity->tls());
  CHECK(identity->renewed() == nullptr);
  REQUIRE(identity->use_deny_list(first.deny_list).ok());  // older: it changes nothing
  CHECK(identity->renewed() == nullptr);
  CHECK(identity->credentials().deny_list == authority.deny_list());
  REQUIRE(trust::write_credentials(file, first).ok());
  touch(file);
  CHECK(identity->renewed() != nullptr);
  CHECK(identity->credentials().deny_list == authority.deny_list());
}

}  // namespace
}  // namespace troupe::cluster
