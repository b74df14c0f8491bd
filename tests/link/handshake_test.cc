// SPDX-License-Identifier: Apache-2.0
// A proof depends on the secret, the side, both nonces and every word of the Hello.
#include "link/handshake.h"

#include <functional>
#include <set>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::link {
namespace {

TEST_CASE("no two introductions have the same proof", "[handshake]") {
  Introduction first;
  first.hello.job = std::string("job");
  first.hello.name = std::string("alpha");
  first.hello.actor = {schemas::Role::device_server, 1};
  first.hello.nonce = base::random_secret();
  first.challenge = base::random_secret();
  first.listener = {schemas::Role::parameter_server, 0};
  using Change = std::function<void(Introduction&)>;
  const std::vector<Change> changes = {
      [](Introduction&) {},
      [](Introduction& i) { i.hello.nonce[15] ^= 1; },
      [](Introduction& i) { i.challenge[0] ^= 1; },
      [](Introduction& i) { std::swap(i.challenge, i.hello.nonce); },
      [](Introduction& i) { i.listener.index = 1; },
      [](Introduction& i) { i.listener.role = schemas::Role::device_server; },
      [](Introduction& i) { i.hello.protocol += 1; },
      [](Introduction& i) { i.hello.job = std::string("jo"); },
      [](Introduction& i) { i.hello.job.swap(i.hello.name); },
      [](Introduction& i) { i.hello.generation = 9; },
      [](Introduction& i) { i.hello.actor.index = 0; },
      [](Introduction& i) { i.hello.channel = schemas::Channel::data; },
      [](Introduction& i) { i.hello.token = 9; },
      [](Introduction& i) { i.hello.lane = 9; },
      [](Introduction& i) { i.hello.lanes = 9; },
      [](Introduction& i) { i.hello.resume = true; }};
  const base::Secret secret = base::random_secret();
  std::set<base::Sha256Digest> proofs;
  for (const Change& change : changes) {
    Introduction changed = first;
    change(changed);
    proofs.insert(make_proof(secret, Side::dialing, changed));
    proofs.insert(make_proof(secret, Side::accepting, changed));
  }
  proofs.insert(make_proof(base::random_secret(), Side::dialing, first));
  CHECK(proofs.size() == 2 * changes.size() + 1);
  CHECK(make_proof(secret, Side::dialing, first) == make_proof(secret, Side::dialing, first));
}

}  // namespace
}  // namespace troupe::link
