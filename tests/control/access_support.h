// SPDX-License-Identifier: Apache-2.0
// Test support: a coordinator that wants tokens, and people and agents who are linked with it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/coordinator_state.h"
#include "tests/control/control_world.h"

namespace troupe::control::testing {

inline KnownToken token_of(const std::string& text, const std::string& name,
                           std::vector<trust::Right> rights) {
  KnownToken known;
  known.token.hash = base::sha256(text);
  known.token.id = "1a2b3c4d";
  known.token.name = name;
  known.token.rights = std::move(rights);
  return known;
}

inline trust::Identity holder_of(trust::Role role, const std::string& name) {
  return {"lab", role, name};
}

/// A coordinator that wants tokens, with one linked peer.
struct Guarded {
  explicit Guarded(trust::Role role, const std::string& name)
      : state({"1", ControlWorld::limits()}) {
    state.handle(TokensRead{
        true,
        {token_of("r", "ann", {trust::Right::read}),
         token_of("s", "ann", {trust::Right::submit, trust::Right::read}),
         token_of("t", "ben", {trust::Right::stop}), token_of("u", "ben", {trust::Right::submit}),
         token_of("j", "ann", {trust::Right::join}), token_of("a", "ann", {trust::Right::admin})}});
    link(1, role, name);
  }
  void link(PeerId peer, trust::Role role, const std::string& name) {
    state.handle(PeerLinked{peer, "10.0.0.5", "10.0.0.5:4711", holder_of(role, name)});
  }
  /// Why the peer was dropped; empty: it was not.
  std::string drop(PeerId peer, const schemas::Message& message) {
    std::string why;
    sent.clear();
    audits.clear();
    for (const CoordinatorEffect& effect : state.handle(PeerSaid{peer, message})) {
      if (const auto* dropped = std::get_if<DropPeer>(&effect)) {
        why = dropped->reason.text();
        code = dropped->reason.code();
      }
      if (const auto* send = std::get_if<Send<PeerId>>(&effect)) sent.push_back(*send);
      if (const auto* audit = std::get_if<Audit>(&effect)) audits.push_back(*audit);
      if (const auto* list = std::get_if<TakeDenyList>(&effect)) lists.push_back(*list);
    }
    return why;
  }
  CoordinatorState state;
  std::vector<Send<PeerId>> sent;
  std::vector<Audit> audits;
  std::vector<TakeDenyList> lists;
  base::Errc code = base::Errc::ok;  ///< of the last drop
};

inline schemas::JobSubmit submit_of(const std::string& id) {
  return {id, ControlWorld::job_text(ControlWorld::job_spec(1, 1, 1)), ""};
}

}  // namespace troupe::control::testing
