// SPDX-License-Identifier: Apache-2.0
// Tokens from files and from requests.
#include "http/guard.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/secret.h"

namespace troupe::http {
namespace {

constexpr std::uint64_t kFileBytesMax = 65'536;
constexpr std::size_t kTokenBytesLeast = 16;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

base::Result<base::Sha256Digest> read_token(const std::filesystem::path& file) {
  TROUPE_TRY_ASSIGN(const std::string text,
                    base::read_secret(file, kFileBytesMax, base::FileKind::any));
  const std::string_view token = trimmed(text);
  const bool plain =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return std::isgraph(c) != 0; });
  if (token.size() >= kTokenBytesLeast && plain) return base::sha256(token);
  return base::error(base::Errc::data_loss,
                     "{}: is no token: one word of {} characters or more, without spaces",
                     file.string(), kTokenBytesLeast);
}

/// The value of the only field `name`; empty: there is none, or several.
std::string_view field_of(std::string_view head, std::string_view name) {
  std::string_view value;
  int found = 0;
  while (!head.empty()) {
    const std::size_t end = std::min(head.find('\n'), head.size() - 1);
    const std::string_view line = head.substr(0, end + 1);
    head.remove_prefix(end + 1);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_word(line.substr(0, colon), name)) continue;
    value = trimmed(line.substr(colon + 1));
    ++found;
  }
  return found == 1 ? value : std::string_view();
}

}  // namespace

base::Result<Guard> Guard::open(const GuardFiles& files) {
  Guard guard;
  if (!files.tls.empty()) {
    TROUPE_TRY_ASSIGN(const std::string pem,
                      base::read_secret(files.tls, kFileBytesMax, base::FileKind::any));
    auto tls = Tls::create(pem);
    if (!tls.ok()) return tls.status().with_context(files.tls.string());
    guard.tls = *std::move(tls);
  }
  if (!files.token.empty()) {
    TROUPE_TRY_ASSIGN(guard.token, read_token(files.token));
  }
  return guard;
}

bool Guard::admits(std::string_view head) const {
  if (!token) return true;
  const std::string_view said = field_of(head, "Authorization");
  const std::size_t space = said.find(' ');
  if (space == std::string_view::npos || !same_word(said.substr(0, space), "Bearer")) return false;
  return base::equal_in_constant_time(*token, base::sha256(trimmed(said.substr(space))));
}

}  // namespace troupe::http
