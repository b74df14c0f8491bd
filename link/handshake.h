// SPDX-License-Identifier: Apache-2.0
// How both ends of a link prove that they know their job's secret, which never travels: each sends
// a nonce, and each proves by HMAC-SHA256 over both nonces and all that the Hello says. In order:
// Hello (dialing end), Challenge, Proof (dialing end), HelloReply. Pure functions; any thread.
// Private to this folder.
#pragma once

#include <cstdint>

#include "base/secret.h"
#include "schemas/messages.h"

namespace troupe::link {

/// Whose proof it is: one end's is never taken for the other's.
enum class Side : std::uint8_t { dialing, accepting };

/// Who says Hello to whom, with both nonces.
struct Introduction {
  schemas::Hello hello;
  schemas::ActorId listener;  ///< whom the Hello is for
  base::Secret challenge{};   ///< the listener's nonce
};

/// What `side` sends to prove that it knows `secret`.
base::Sha256Digest make_proof(const base::Secret& secret, Side side,
                              const Introduction& introduction);

}  // namespace troupe::link
