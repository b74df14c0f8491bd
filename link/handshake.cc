// SPDX-License-Identifier: Apache-2.0
// The bytes under a proof: every field with its length or in a fixed size, so that no two
// introductions are the same bytes.
#include "link/handshake.h"

#include <string>
#include <string_view>

namespace troupe::link {
namespace {

constexpr std::string_view kPurpose = "troupe link proof 1";

class Bytes {
 public:
  void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(number >> (8 * i) & 0xff);
  }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    bytes_ += text;
  }
  void add(const base::Secret& nonce) {
    for (const std::uint8_t byte : nonce) bytes_ += static_cast<char>(byte);
  }
  void add(const schemas::ActorId& actor) {
    add(static_cast<std::uint64_t>(actor.role));
    add(std::uint64_t{actor.index});
  }
  const std::string& get() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

base::Sha256Digest make_proof(const base::Secret& secret, Side side,
                              const Introduction& introduction) {
  const auto& [protocol, job, generation, actor, name, channel, token, lane, lanes, resume, nonce] =
      introduction.hello;
  Bytes bytes;
  bytes.add(kPurpose);
  bytes.add(static_cast<std::uint64_t>(side));
  bytes.add(nonce);
  bytes.add(introduction.challenge);
  bytes.add(introduction.listener);
  bytes.add(std::uint64_t{protocol});
  bytes.add(job);
  bytes.add(generation);
  bytes.add(actor);
  bytes.add(name);
  bytes.add(static_cast<std::uint64_t>(channel));
  bytes.add(token);
  bytes.add(std::uint64_t{lane});
  bytes.add(std::uint64_t{lanes});
  bytes.add(std::uint64_t{resume});
  return base::hmac_sha256(secret, bytes.get());
}

}  // namespace troupe::link
