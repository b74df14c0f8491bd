// SPDX-License-Identifier: Apache-2.0
// CertificateTrial: a link shows a new certificate by being dialed anew. Whether the peer believes
// it, or this end still believes the peer's, is found out first, over a link of its own: the one
// that is up carries what runs, and is not cut for a certificate that brings no other one. One
// owner, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "link/link_set.h"

namespace troupe::cluster {

/// See the top of the file.
class CertificateTrial {
 public:
  /// A trial that has failed is followed by another one so much later.
  static constexpr std::uint64_t kPauseMs = 10'000;

  /// `shown`: serial number of the certificate with which `links` were made; `peer`: as it was
  /// dialed. `links` outlives this object.
  CertificateTrial(link::LinkSet& links, link::DialOptions peer, std::string shown);
  ~CertificateTrial();
  CertificateTrial(const CertificateTrial&) = delete;
  CertificateTrial& operator=(const CertificateTrial&) = delete;

  /// To be called often. `serial`: of the certificate that new connections of `links` show. Once it
  /// is another one and the peer believes it, all links of `links` are dialed anew.
  void look(const std::string& serial, std::uint64_t now_ms);
  /// It is being found out.
  bool trying() const { return probe_ != nullptr; }

 private:
  class Probe;
  void begin(const std::string& serial);
  void end(const base::Status& verdict, std::uint64_t now_ms);

  link::LinkSet& links_;
  const link::DialOptions peer_;
  std::string shown_;
  std::string tried_;             ///< by the probe under way, or the last one
  std::shared_ptr<Probe> probe_;  ///< under way
  std::uint64_t next_ms_ = 0;     ///< when `tried_` may be tried again
  base::Status told_;             ///< why the last one has failed, as the log has it
};

}  // namespace troupe::cluster
