// SPDX-License-Identifier: Apache-2.0
// Certificates say what went into them, and only who may sign does.
#include "trust/certificate.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "tests/support/catch.h"

namespace troupe::trust {
namespace {

constexpr Validity kYear{1'700'000'000, 1'731'536'000};

X509* read(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return certificate;
}

TEST_CASE("a certificate holds identity, serial number, times and rights") {
  const auto authority = make_authority("lab", kYear).value();
  const auto top = read_certificate(authority.certificate).value();
  CHECK(top.identity == Identity{"lab", Role::authority, "lab"});
  CHECK(top.validity == kYear);
  CHECK(top.may_sign);
  const Identity who{"lab", Role::coordinator, "main"};
  const auto first = make_certificate(who, {5, 4'000'000'000}, authority).value();
  const auto second = make_certificate(who, kYear, authority).value();
  const auto info = read_certificate(first.certificate).value();
  CHECK(info.identity == who);
  CHECK(info.validity == Validity{5, 4'000'000'000});
  CHECK_FALSE(info.may_sign);
  CHECK(info.serial.size() == 32);
  CHECK(info.serial != read_certificate(second.certificate)->serial);
  CHECK(first.key != second.key);
  CHECK(check_key(first).ok());
  CHECK(check_key({first.key, second.certificate}).code() == base::Errc::invalid_argument);
}

TEST_CASE("who may not sign is refused, and so are bad names and foreign bytes") {
  const auto authority = make_authority("lab", kYear).value();
  const auto agent = make_certificate({"lab", Role::agent, "a"}, kYear, authority).value();
  const Identity process{"lab", Role::process, "a/mnist/1"};
  CHECK(make_certificate(process, kYear, agent).ok());
  CHECK(make_certificate(process, kYear, authority).status().code() ==
        base::Errc::permission_denied);
  CHECK(make_certificate({"lab", Role::process, "b/mnist/1"}, kYear, agent).status().code() ==
        base::Errc::permission_denied);
  CHECK(make_certificate({"lab", Role::agent, "a b"}, kYear, authority).status().code() ==
        base::Errc::invalid_argument);
  CHECK(make_authority("la/b", kYear).status().code() == base::Errc::invalid_argument);
  CHECK(make_certificate({"lab", Role::agent, "a"}, kYear, {"x", "y"}).status().code() ==
        base::Errc::data_loss);
  CHECK(read_certificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .status()
            .code() == base::Errc::data_loss);
}

TEST_CASE("a chain is believed from the leaf to an authority") {
  const auto authority = make_authority("lab", kYear).value();
  const auto agent = make_certificate({"lab", Role::agent, "a"}, kYear, authority).value();
  const Identity who{"lab", Role::process, "a/mnist/1"};
  const auto process = make_certificate(who, kYear, agent).value();
  std::vector<X509*> chain;
  for (const auto& each : {process, agent, authority}) chain.push_back(read(each.certificate));
  CHECK(identity_of_chain(chain).value() == who);
  CHECK(identity_of_chain(std::span(chain).subspan(1)).value() ==
        Identity{"lab", Role::agent, "a"});
  CHECK(identity_of_chain(std::span(chain).subspan(2)).status().code() ==
        base::Errc::permission_denied);
  CHECK(identity_of_chain(std::span(chain).first(2)).status().code() ==
        base::Errc::permission_denied);
  CHECK(identity_of_chain({}).status().code() == base::Errc::permission_denied);
  CHECK(X509_verify(chain[0], X509_get0_pubkey(chain[1])) == 1);
  CHECK(X509_verify(chain[1], X509_get0_pubkey(chain[2])) == 1);
  for (X509* each : chain) X509_free(each);
}

TEST_CASE("a deny list is signed by its authority and names the withdrawn") {
  const auto authority = make_authority("lab", kYear).value();
  const auto agent = make_certificate({"lab", Role::agent, "a"}, kYear, authority).value();
  const auto serial = read_certificate(agent.certificate)->serial;
  const std::vector<Withdrawn> withdrawn = {{serial, 1'700'000'100}};
  const std::string pem = make_deny_list(withdrawn, 7, kYear, authority).value();
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509_CRL* list = PEM_read_bio_X509_CRL(bio, nullptr, nullptr, nullptr);
  REQUIRE(list != nullptr);
  X509* top = read(authority.certificate);
  X509* leaf = read(agent.certificate);
  CHECK(X509_CRL_verify(list, X509_get0_pubkey(top)) == 1);
  X509_REVOKED* found = nullptr;
  CHECK(X509_CRL_get0_by_cert(list, &found, leaf) == 1);
  CHECK(X509_CRL_get0_by_cert(list, &found, top) == 0);
  X509_CRL_free(list);
  X509_free(top);
  X509_free(leaf);
  BIO_free(bio);
}

}  // namespace
}  // namespace troupe::trust
