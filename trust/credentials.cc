// SPDX-License-Identifier: Apache-2.0
// Credentials as PEM blocks, one behind the other.
#include "trust/credentials.h"

#include "base/file.h"

namespace troupe::trust {
namespace {

using base::Errc;
using base::Result;
using base::Status;

constexpr std::uint64_t kFileBytesMax = 1'048'576;
constexpr std::string_view kBegin = "-----BEGIN ";
constexpr std::string_view kEnd = "-----END ";
constexpr std::string_view kDashes = "-----";

/// A PEM block: its label, and its text with the lines around it.
struct Block {
  std::string label;
  std::string text;
};

/// What stands between blocks is for people.
Result<std::vector<Block>> split(std::string_view pem) {
  std::vector<Block> blocks;
  while (true) {
    const std::size_t begin = pem.find(kBegin);
    if (begin == std::string_view::npos) return blocks;
    pem.remove_prefix(begin);
    const std::size_t label_end = pem.find(kDashes, kBegin.size());
    if (label_end == std::string_view::npos) break;
    const std::string label(pem.substr(kBegin.size(), label_end - kBegin.size()));
    const std::string last = std::string(kEnd) + label + std::string(kDashes);
    const std::size_t end = pem.find(last);
    if (end == std::string_view::npos) break;
    blocks.push_back({label, std::string(pem.substr(0, end + last.size())) + "\n"});
    pem.remove_prefix(end + last.size());
  }
  return base::error(Errc::data_loss, "a PEM block is cut off");
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::string Credentials::to_pem() const {
  return own.key + own.certificate + above + authority + deny_list;
}

Result<Credentials> parse_credentials(std::string_view pem) {
  TROUPE_TRY_ASSIGN(const std::vector<Block> blocks, split(pem));
  Credentials read;
  std::vector<std::string> certificates;
  for (const Block& block : blocks) {
    if (block.label == "CERTIFICATE") {
      certificates.push_back(block.text);
    } else if (block.label == "PRIVATE KEY" && read.own.key.empty()) {
      read.own.key = block.text;
    } else if (block.label == "X509 CRL" && read.deny_list.empty()) {
      read.deny_list = block.text;
    } else {
      return base::error(Errc::data_loss, "a PEM block '{}' too many", block.label);
    }
  }
  if (read.own.key.empty()) return base::error(Errc::data_loss, "no private key");
  if (certificates.size() < 2) {
    return base::error(Errc::data_loss, "{} certificates; its own and the authority's are needed",
                       certificates.size());
  }
  read.own.certificate = certificates.front();
  read.authority = certificates.back();
  for (std::size_t i = 1; i + 1 < certificates.size(); ++i) read.above += certificates[i];
  TROUPE_TRY_ASSIGN(read.info, read_certificate(read.own.certificate));
  Identity below = read.info.identity;
  for (std::size_t i = 1; i < certificates.size(); ++i) {
    TROUPE_TRY_ASSIGN(const CertificateInfo info, read_certificate(certificates[i]));
    TROUPE_TRY(check_issuer(info.identity, below));
    below = info.identity;
  }
  TROUPE_TRY(check_key(read.own));
  return read;
}

Result<Credentials> read_credentials(const std::filesystem::path& file) {
  TROUPE_TRY_ASSIGN(const std::string text,
                    base::read_secret(file, kFileBytesMax, base::FileKind::any));
  auto credentials = parse_credentials(text);
  if (!credentials.ok()) return credentials.status().with_context(file.string());
  return credentials;
}

Status write_credentials(const std::filesystem::path& file, const Credentials& credentials) {
  return base::write_file_atomically(file, bytes_of(credentials.to_pem()), base::FileMode::secret);
}

Result<bool> take_deny_list(Credentials& credentials, const std::string& pem) {
  TROUPE_TRY_ASSIGN(const std::uint64_t number, check_deny_list(pem, credentials.authority));
  if (!credentials.deny_list.empty()) {
    TROUPE_TRY_ASSIGN(const std::uint64_t known,
                      check_deny_list(credentials.deny_list, credentials.authority));
    if (number <= known) return false;
  }
  credentials.deny_list = pem;
  return true;
}

Result<Credentials> delegate(const Credentials& issuer, const Identity& subject,
                             Validity validity) {
  Credentials made;
  TROUPE_TRY_ASSIGN(made.own, make_certificate(subject, validity, issuer.own));
  TROUPE_TRY_ASSIGN(made.info, read_certificate(made.own.certificate));
  made.above = issuer.own.certificate + issuer.above;
  made.authority = issuer.authority;
  made.deny_list = issuer.deny_list;
  return made;
}

}  // namespace troupe::trust
