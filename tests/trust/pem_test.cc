// SPDX-License-Identifier: Apache-2.0
// Text in PEM that is encrypted, or says so, is refused, and nobody is asked for a passphrase.
#include "trust/pem.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ui.h>

#include "tests/support/catch.h"
#include "trust/certificate.h"

namespace troupe::trust {
namespace {

bool asked = false;

/// Notes whether OpenSSL wants to ask at a terminal, which it cannot.
class Terminal {
 public:
  Terminal() : method_(UI_create_method("terminal")) {
    asked = false;
    UI_method_set_opener(method_, [](UI*) {
      asked = true;
      return 0;
    });
    UI_set_default_method(method_);
  }
  ~Terminal() {
    UI_set_default_method(UI_OpenSSL());
    UI_destroy_method(method_);
  }

 private:
  UI_METHOD* method_;
};

std::string encrypted_key() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  BIO* bio = BIO_new(BIO_s_mem());
  char word[] = "word";
  PEM_write_bio_PKCS8PrivateKey(bio, key, EVP_aes_128_cbc(), word, 4, nullptr, nullptr);
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(bytes));
  BIO_free(bio);
  EVP_PKEY_free(key);
  return text;
}

/// The same block, as if it were encrypted in the old way.
std::string claim_encrypted(std::string pem) {
  const std::size_t line = pem.find('\n') + 1;
  return pem.insert(line,
                    "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF"
                    "\n\n");
}

TEST_CASE("nobody is asked for a passphrase") {
  const Terminal terminal;
  const Validity always{0, 4'000'000'000};
  const auto authority = make_authority("lab", always).value();
  const auto locked = check_key({encrypted_key(), authority.certificate});
  CHECK(locked.code() == base::Errc::data_loss);
  CHECK_THAT(locked.text(), Catch::Contains("the private key is encrypted"));
  CHECK_FALSE(check_key({claim_encrypted(authority.key), authority.certificate}).ok());
  CHECK_FALSE(read_certificate(claim_encrypted(authority.certificate)).ok());
  const std::string list = make_deny_list({}, 1, always, authority).value();
  REQUIRE(check_deny_list(list, authority.certificate).ok());
  CHECK_FALSE(check_deny_list(claim_encrypted(list), authority.certificate).ok());
  CHECK_FALSE(check_deny_list(list, claim_encrypted(authority.certificate)).ok());
  CHECK_FALSE(asked);
}

}  // namespace
}  // namespace troupe::trust
