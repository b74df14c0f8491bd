// SPDX-License-Identifier: Apache-2.0
// Tokens: what a person shows a coordinator, beside a certificate, so that it does as told. The
// coordinator's folder holds their hashes alone. A TokenBook is one process's and thread's; the
// rest: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/folder_lock.h"
#include "base/hash.h"
#include "base/status.h"
#include "trust/certificate.h"

namespace troupe::trust {

/// What a token lets its holder do.
enum class Right : std::uint8_t {
  read,    ///< jobs, machines and ranks
  submit,  ///< jobs, and stop those of the same person
  stop,    ///< everybody's jobs; save them
  join,    ///< as an agent, with slots, where none shows a certificate
  admin    ///< all of these, and hand in lists of what is revoked
};

/// "read", "submit", "stop", "join", "admin".
std::string_view right_name(Right right);
/// The right of a right_name(); invalid_argument names the word.
base::Result<Right> parse_right(std::string_view word);

/// A token as its coordinator knows it: not the token, but its hash.
struct Token {
  std::string id;    ///< the hash's first 8 hex digits
  std::string name;  ///< of the person
  std::vector<Right> rights;
  base::Sha256Digest hash{};
  Validity validity;
  std::int64_t withdrawn = 0;  ///< when, Unix seconds; 0: it is not

  /// Whether it gives this right.
  bool gives(Right right) const;
  friend bool operator==(const Token&, const Token&) = default;
};

/// A token's text in a file. not_found, permission_denied where others than its owner may read it,
/// invalid_argument: it holds no token.
base::Result<std::string> read_token(const std::filesystem::path& file);

/// The tokens of a coordinator: tokens.json, mode 0600, in a folder of its own.
class TokenBook {
 public:
  static constexpr std::string_view kFile = "tokens.json";

  /// Opens the folder's, empty where there is none yet, and keeps others from changing it
  /// meanwhile. already_exists: somebody is at it; permission_denied: it is another user's, who
  /// could read it no more; as of read().
  static base::Result<TokenBook> open(const std::filesystem::path& folder);
  /// The tokens alone, while others may change them. not_found: there is no book; permission_denied
  /// where others than its owner may use it, or it is of neither this process's user nor root, nor,
  /// where root reads, of whoever owns the folder around `folder`; data_loss.
  static base::Result<std::vector<Token>> read(const std::filesystem::path& folder);

  /// In the order of making.
  const std::vector<Token>& tokens() const { return tokens_; }
  /// Makes one and writes the book; returns the token's text, which is nowhere else.
  base::Result<std::string> make(const std::string& name, std::vector<Right> rights,
                                 Validity validity);
  /// Withdraws the token of this id, or all of the person of this name, those that have ended, too,
  /// as their agents stay; returns how many. not_found where none is left to withdraw.
  base::Result<std::size_t> revoke(std::string_view id_or_name, std::int64_t now);

 private:
  TokenBook() = default;
  base::Status save() const;

  base::FolderLock lock_;
  std::filesystem::path file_;
  std::vector<Token> tokens_;
};

}  // namespace troupe::trust
