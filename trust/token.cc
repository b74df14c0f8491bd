// SPDX-License-Identifier: Apache-2.0
// Making tokens, and the file of their hashes.
#include "trust/token.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/name.h"
#include "base/secret.h"
#include "trust/validity.h"

namespace troupe::trust {
namespace {

namespace fs = std::filesystem;
using base::Errc;
using base::Result;
using base::Status;
using nlohmann::json;

constexpr std::array<std::string_view, 5> kRights{"read", "submit", "stop", "join", "admin"};
constexpr std::string_view kMark = "troupe_";
constexpr std::size_t kIdDigits = 8;
constexpr std::size_t kTokensMax = 4'096;
constexpr std::uint64_t kBookBytesMax = 16'777'216;
constexpr std::uint64_t kTokenBytesMax = 4'096;
constexpr int kFormat = 1;

json to_json(const Token& token) {
  json rights = json::array();
  for (const Right right : token.rights) rights.push_back(right_name(right));
  return {{"name", token.name},
          {"rights", std::move(rights)},
          {"sha256", base::to_hex(token.hash)},
          {"from", token.validity.from},
          {"until", token.validity.until},
          {"withdrawn", token.withdrawn}};
}

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return -1;
}

Status read_hash(const std::string& text, base::Sha256Digest& hash) {
  bool good = text.size() == 2 * hash.size();
  for (std::size_t i = 0; good && i < hash.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    hash[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  if (good) return {};
  return base::error(Errc::data_loss, "sha256: '{}' is no hash", text);
}

void set_hash(Token& token, const base::Sha256Digest& hash) {
  token.hash = hash;
  token.id = base::to_hex(hash).substr(0, kIdDigits);
}

Result<Token> from_json(const json& entry) {
  Token token;
  base::Sha256Digest hash{};
  TROUPE_TRY(read_hash(entry.at("sha256").get<std::string>(), hash));
  set_hash(token, hash);
  token.name = entry.at("name").get<std::string>();
  for (const json& word : entry.at("rights")) {
    TROUPE_TRY_ASSIGN(const Right right, parse_right(word.get<std::string>()));
    token.rights.push_back(right);
  }
  token.validity = {entry.at("from").get<std::int64_t>(), entry.at("until").get<std::int64_t>()};
  token.withdrawn = entry.at("withdrawn").get<std::int64_t>();
  return token;
}

bool holds(const Token& token, std::int64_t now) {
  return token.withdrawn == 0 && !ended(token.validity, now);
}

Result<std::vector<Token>> parse_book(const std::string& text, const fs::path& file) {
  std::vector<Token> tokens;
  try {
    const json root = json::parse(text);
    if (root.at("format") != kFormat) {
      return base::error(Errc::version_mismatch, "{}: format {}, this program reads {}",
                         file.string(), root.at("format").dump(), kFormat);
    }
    for (const json& entry : root.at("tokens")) {
      auto token = from_json(entry);
      if (!token.ok()) return token.status().with_context(file.string());
      tokens.push_back(std::move(token).value());
    }
  } catch (const json::exception& fault) {
    return base::error(Errc::data_loss, "{}: {}", file.string(), fault.what());
  }
  return tokens;
}

}  // namespace

std::string_view right_name(Right right) {
  return kRights.at(static_cast<std::size_t>(right));
}

Result<Right> parse_right(std::string_view word) {
  const auto found = std::find(kRights.begin(), kRights.end(), word);
  if (found != kRights.end()) return static_cast<Right>(found - kRights.begin());
  return base::error(Errc::invalid_argument, "'{}' is no right: read, submit, stop, join, admin",
                     word);
}

bool Token::gives(Right right) const {
  return std::any_of(rights.begin(), rights.end(),
                     [&](Right each) { return each == right || each == Right::admin; });
}

Result<std::string> read_token(const fs::path& file) {
  TROUPE_TRY_ASSIGN(std::string text, base::read_secret(file, kTokenBytesMax, base::FileKind::any));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const bool token = text.starts_with(kMark) && text.find_first_of(" \t\n\r") == std::string::npos;
  if (token) return text;
  // What stands there is not shown: it may be another secret.
  return base::error(Errc::invalid_argument, "{}: holds no token, as troupe token make writes it",
                     file.string());
}

Result<TokenBook> TokenBook::open(const fs::path& folder) {
  TokenBook opened;
  TROUPE_TRY_ASSIGN(opened.lock_, base::FolderLock::take(folder, {}, base::FileMode::secret));
  opened.file_ = folder / kFile;
  // Written anew it would be this user's, and its coordinator could read it no more.
  const Status own = base::check_owner(opened.file_);
  if (!own.ok() && own.code() != Errc::not_found) return own;
  auto tokens = read(folder);
  if (tokens.ok()) {
    opened.tokens_ = std::move(tokens).value();
  } else if (tokens.status().code() != Errc::not_found) {
    return tokens.status();
  }
  return opened;
}

Result<std::vector<Token>> TokenBook::read(const fs::path& folder) {
  const fs::path file = folder / kFile;
  // Root finds the books of those whose coordinators it serves, in their folders of state.
  const fs::path state = folder.lexically_normal().parent_path();
  TROUPE_TRY_ASSIGN(
      const std::string text,
      base::read_secret(file, kBookBytesMax, base::FileKind::regular, state.empty() ? "." : state));
  return parse_book(text, file);
}

Result<std::string> TokenBook::make(const std::string& name, std::vector<Right> rights,
                                    Validity validity) {
  if (!base::plain_name(name)) {
    return base::error(Errc::invalid_argument, "'{}' is no name for a person: {}", name,
                       base::kPlainNameRule);
  }
  if (rights.empty()) return base::error(Errc::invalid_argument, "a token without a right");
  TROUPE_TRY(check_validity(validity).with_context(fmt::format("a token of '{}'", name)));
  // Those that hold no longer make room, oldest first.
  if (tokens_.size() >= kTokensMax) {
    std::erase_if(tokens_, [&](const Token& each) { return !holds(each, validity.from); });
  }
  if (tokens_.size() >= kTokensMax) {
    return base::error(Errc::resource_exhausted, "{} tokens are valid; revoke some",
                       tokens_.size());
  }
  // 256 random bits: nobody guesses it, and its hash needs no salt.
  const std::string text = std::string(kMark) + base::to_hex(base::random_secret()) +
                           base::to_hex(base::random_secret());
  Token token;
  set_hash(token, base::sha256(text));
  token.name = name;
  token.rights = std::move(rights);
  token.validity = validity;
  tokens_.push_back(std::move(token));
  TROUPE_TRY(save());
  return text;
}

Result<std::size_t> TokenBook::revoke(std::string_view id_or_name, std::int64_t now) {
  std::size_t count = 0;
  for (Token& each : tokens_) {
    if ((each.id != id_or_name && each.name != id_or_name) || each.withdrawn != 0) continue;
    each.withdrawn = now;
    ++count;
  }
  if (count == 0) {
    return base::error(Errc::not_found,
                       "there is no token with the id or the name '{}', or it is revoked",
                       id_or_name);
  }
  TROUPE_TRY(save());
  return count;
}

Status TokenBook::save() const {
  json book = {{"format", kFormat}, {"tokens", json::array()}};
  for (const Token& each : tokens_) book["tokens"].push_back(to_json(each));
  const std::string text = book.dump(1) + "\n";
  return base::write_file_atomically(file_, std::as_bytes(std::span(text)), base::FileMode::secret);
}

}  // namespace troupe::trust
