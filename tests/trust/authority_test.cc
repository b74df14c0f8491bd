// SPDX-License-Identifier: Apache-2.0
// An authority's folder: what it signs is remembered, what it withdraws stays withdrawn.
#include "trust/authority.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::trust {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;
constexpr Validity kYear{kNow, kNow + 31'536'000};

TEST_CASE("an authority is made once and remembers whom it has signed for") {
  const TestFolder folder("authority-test");
  std::string serial;
  {
    auto made = Authority::create(folder.path(), "lab", kYear).value();
    serial = made.issue(Role::coordinator, "main", kYear, kNow)->info.serial;
    CHECK(made.issue(Role::agent, "a", kYear, kNow).ok());
    const auto again = made.issue(Role::agent, "a", kYear, kNow).status();
    CHECK(again.code() == base::Errc::already_exists);
    CHECK(made.issue(Role::process, "a/b/1", kYear, kNow).status().code() ==
          base::Errc::permission_denied);
    CHECK(made.issue(Role::agent, "a b", kYear, kNow).status().code() ==
          base::Errc::invalid_argument);
    CHECK(Authority::open(folder.path()).status().code() == base::Errc::already_exists);  // locked
  }
  CHECK(Authority::create(folder.path(), "lab", kYear).status().code() ==
        base::Errc::already_exists);
  const auto opened = Authority::open(folder.path()).value();
  CHECK(opened.cluster() == "lab");
  REQUIRE(opened.issued().size() == 2);
  CHECK(opened.issued()[0].serial == serial);
  CHECK(opened.issued()[1].identity == Identity{"lab", Role::agent, "a"});
  CHECK(opened.issued()[1].validity == kYear);
}

TEST_CASE("an authority that was begun and not finished is made anew") {
  const TestFolder folder("authority-test-begun");
  const auto without_key = [&] { std::filesystem::remove(folder.path() / "authority.pem"); };
  REQUIRE(Authority::create(folder.path(), "lab", kYear).ok());
  without_key();
  {
    auto again = Authority::create(folder.path(), "lab", kYear);
    REQUIRE(again.ok());
    CHECK(again->issue(Role::agent, "a", kYear, kNow).ok());
  }
  without_key();  // lost, and somebody holds what it has signed
  CHECK(Authority::create(folder.path(), "lab", kYear).status().code() ==
        base::Errc::already_exists);
}

TEST_CASE("what was revoked is on the list, is not renewed, and its name is free again") {
  const TestFolder folder("authority-test-revoke");
  auto authority = Authority::create(folder.path(), "lab", kYear).value();
  const auto first = authority.issue(Role::agent, "a", kYear, kNow).value();
  const auto renewed = authority.renew(first, {kNow + 10, kNow + 1'000}, kNow).value();
  CHECK(renewed.info.identity == first.info.identity);
  CHECK(renewed.own.key != first.own.key);
  const std::string before = authority.deny_list();
  CHECK(authority.revoke(Role::agent, "b", kNow + 20).code() == base::Errc::not_found);
  CHECK(authority.deny_list() == before);
  REQUIRE(authority.revoke(Role::agent, "a", kNow + 20).ok());  // both of them
  CHECK(authority.deny_list() != before);
  for (const Issued& each : authority.issued()) CHECK(each.withdrawn == kNow + 20);
  for (const Credentials& old : {first, renewed}) {
    CHECK(authority.renew(old, kYear, kNow).status().code() == base::Errc::permission_denied);
  }
  const auto next = authority.issue(Role::agent, "a", {kNow + 30, kNow + 1'000}, kNow);
  CHECK(next.ok());
  CHECK(next->deny_list == authority.deny_list());
  std::ifstream file(folder.path() / "denied.pem");
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == authority.deny_list());
}

TEST_CASE("a certificate that nobody has got leaves the book, and its name is free") {
  const TestFolder folder("authority-test-forget");
  {
    auto authority = Authority::create(folder.path(), "lab", kYear).value();
    const auto first = authority.issue(Role::agent, "a", kYear, kNow).value();
    const auto second = authority.renew(first, kYear, kNow).value();
    REQUIRE(authority.forget(second.info.serial).ok());
    CHECK(authority.issue(Role::agent, "a", kYear, kNow).status().code() ==
          base::Errc::already_exists);  // the first one stays
    REQUIRE(authority.forget(first.info.serial).ok());
    CHECK(authority.forget(first.info.serial).code() == base::Errc::not_found);
  }
  auto authority = Authority::open(folder.path()).value();
  CHECK(authority.issued().empty());
  CHECK(authority.issue(Role::agent, "a", kYear, kNow).ok());
}

TEST_CASE("a list that could not be written is completed by whoever comes next") {
  const TestFolder folder("authority-test-list");
  const auto file = folder.path() / "denied.pem";
  Credentials agent;
  {
    auto authority = Authority::create(folder.path(), "lab", kYear).value();
    agent = authority.issue(Role::agent, "a", kYear, kNow).value();
    const std::string before = authority.deny_list();
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);  // nothing can be written there
    CHECK_FALSE(authority.revoke(Role::agent, "a", kNow + 20).ok());
    std::filesystem::remove(file);
    std::ofstream(file) << before;
  }
  auto authority = Authority::open(folder.path()).value();
  const auto read = [&] {
    std::ifstream stream(file);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::string completed = authority.deny_list();
  CHECK(read() == completed);
  const auto number = [&](const std::string& list) {
    return check_deny_list(list, agent.authority).value();
  };
  CHECK(number(completed) == 3);
  // The same wish again is granted, with a list of its own.
  REQUIRE(authority.revoke(Role::agent, "a", kNow + 30).ok());
  CHECK(number(authority.deny_list()) == 4);
  CHECK(read() == authority.deny_list());
  CHECK(authority.issued()[0].withdrawn == kNow + 20);
}

TEST_CASE("a book with a damaged serial number is refused") {
  const TestFolder folder("authority-test-serial");
  std::string serial;
  {
    auto authority = Authority::create(folder.path(), "lab", kYear).value();
    serial = authority.issue(Role::agent, "a", kYear, kNow)->info.serial;
  }
  std::ifstream stream(folder.path() / "issued.json");
  const std::string book(std::istreambuf_iterator<char>(stream), {});
  for (std::string damaged :
       {"z" + serial.substr(1), std::string(), serial + std::string(9, '0')}) {
    std::string text = book;
    text.replace(text.find(serial), serial.size(), damaged);
    std::ofstream(folder.path() / "issued.json") << text;
    const auto opened = Authority::open(folder.path()).status();
    CHECK(opened.code() == base::Errc::data_loss);
    CHECK_THAT(opened.text(), Catch::Contains("'" + damaged + "' is no serial number"));
  }
}

TEST_CASE("an older book beside a newer list is refused") {
  const TestFolder folder("authority-test-older");
  {
    auto authority = Authority::create(folder.path(), "lab", kYear).value();
    REQUIRE(authority.issue(Role::agent, "a", kYear, kNow).ok());
    std::filesystem::copy_file(folder.path() / "issued.json", folder.path() / "kept");
    REQUIRE(authority.revoke(Role::agent, "a", kNow).ok());
  }
  std::filesystem::rename(folder.path() / "kept", folder.path() / "issued.json");
  const auto status = Authority::open(folder.path()).status();
  CHECK(status.code() == base::Errc::data_loss);
  CHECK_THAT(status.text(), Catch::Contains("is of list 1"));
}

/// How many serial numbers stand in a list.
int count_of(const std::string& list) {
  BIO* bio = BIO_new_mem_buf(list.data(), static_cast<int>(list.size()));
  X509_CRL* read = PEM_read_bio_X509_CRL(bio, nullptr, nullptr, nullptr);
  REQUIRE(read != nullptr);
  STACK_OF(X509_REVOKED)* entries = X509_CRL_get_REVOKED(read);
  const int count = entries == nullptr ? 0 : sk_X509_REVOKED_num(entries);
  X509_CRL_free(read);
  BIO_free(bio);
  return count;
}

TEST_CASE("what has ended is revoked, too, and is listed for some days more") {
  constexpr std::int64_t kDay = 86'400;
  const TestFolder folder("authority-test-ended");
  auto authority = Authority::create(folder.path(), "lab", kYear).value();
  const auto first = authority.issue(Role::agent, "a", {kNow, kNow + 6}, kNow).value();
  REQUIRE(authority.issue(Role::agent, "b", {kNow, kNow + 30 * kDay}, kNow).ok());
  REQUIRE(authority.revoke(Role::agent, "b", kNow).ok());
  CHECK(count_of(authority.deny_list()) == 1);
  REQUIRE(authority.revoke(Role::agent, "a", kNow + 20 * kDay).ok());
  CHECK(authority.issued()[0].withdrawn == kNow + 20 * kDay);
  CHECK(count_of(authority.deny_list()) == 2);
  CHECK(authority.renew(first, kYear, kNow + 20 * kDay).status().code() ==
        base::Errc::permission_denied);
  const auto listed = [&](std::int64_t days) {
    REQUIRE(authority.revoke(Role::agent, "b", kNow + days * kDay).ok());
    return count_of(authority.deny_list());
  };
  CHECK(listed(27) == 2);
  CHECK(listed(28) == 1);
  CHECK(listed(37) == 1);
  CHECK(listed(38) == 0);
}

TEST_CASE("what begins later is revoked, too") {
  const TestFolder folder("authority-test-later");
  auto authority = Authority::create(folder.path(), "lab", kYear).value();
  REQUIRE(authority.issue(Role::agent, "a", {kNow + 1'000, kNow + 2'000}, kNow).ok());
  REQUIRE(authority.revoke(Role::agent, "a", kNow).ok());
  CHECK(authority.issued()[0].withdrawn == kNow);
}

TEST_CASE("an end is judged at the moment itself, though validities begin a little earlier") {
  const TestFolder folder("authority-test-moment");
  auto authority = Authority::create(folder.path(), "lab", kYear).value();
  REQUIRE(authority.issue(Role::agent, "a", valid_for(kNow, 2), kNow).ok());
  CHECK(authority.issue(Role::agent, "a", valid_for(kNow + 1, 2), kNow + 1).status().code() ==
        base::Errc::already_exists);
  CHECK(state_name(authority.issued()[0].validity, 0, kNow + 1) == "valid");
  CHECK(state_name(authority.issued()[0].validity, 0, kNow + 2) == "expired");
  CHECK(authority.issue(Role::agent, "a", valid_for(kNow + 2, 2), kNow + 2).ok());
}

TEST_CASE("nothing holds longer than the authority that signs it") {
  const TestFolder folder("authority-test-end");
  auto authority = Authority::create(folder.path(), "lab", kYear).value();
  const auto made = authority.issue(Role::agent, "a", {kNow, kYear.until + 1}, kNow).value();
  CHECK(made.info.validity == kYear);
  CHECK(authority.issued()[0].validity == kYear);
  const auto late =
      authority.renew(made, {kYear.until - 300, kYear.until + 2}, kYear.until).status();
  CHECK(late.code() == base::Errc::failed_precondition);
  CHECK(late.text() == "the authority of cluster 'lab' was valid until 2024-11-13T22:13:20Z");
}

TEST_CASE("another authority's credentials are not renewed") {
  const TestFolder folder("authority-test-other");
  auto one = Authority::create(folder.path() / "1", "lab", kYear).value();
  auto two = Authority::create(folder.path() / "2", "lab", kYear).value();
  const auto agent = one.issue(Role::agent, "a", kYear, kNow).value();
  CHECK(two.renew(agent, kYear, kNow).status().code() == base::Errc::permission_denied);
}

TEST_CASE("an authority's folder that is missing, open to others or damaged is refused") {
  const TestFolder folder("authority-test-bad");
  CHECK(Authority::open(folder.path() / "none").status().code() == base::Errc::not_found);
  { REQUIRE(Authority::create(folder.path(), "lab", kYear).ok()); }
  const auto key = folder.path() / "authority.pem";
  std::filesystem::permissions(key, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  CHECK(Authority::open(folder.path()).status().code() == base::Errc::permission_denied);
  std::filesystem::permissions(key, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::remove);
  CHECK(Authority::open(folder.path()).ok());
  const auto book = folder.path() / "issued.json";
  const auto refused = [&](const std::string& text) {
    std::ofstream(book) << text;
    return Authority::open(folder.path()).status();
  };
  CHECK_THAT(refused("{").text(), Catch::Contains("issued.json"));
  CHECK(refused("{}").code() == base::Errc::data_loss);
  CHECK(refused(R"({"format":2})").code() == base::Errc::version_mismatch);
  CHECK(refused(R"({"format":1,"lists":1,"certificates":[{"identity":"x"}]})").code() ==
        base::Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::trust
