// SPDX-License-Identifier: Apache-2.0
// Test support: credentials of a small cluster.
#pragma once

#include <string>
#include <vector>

#include "link/tls.h"
#include "trust/credentials.h"

namespace troupe::link::test {

inline constexpr trust::Validity kLong{0, 4'000'000'000};

/// An authority of the cluster `name`, and credentials that it signs.
class Cluster {
 public:
  explicit Cluster(const std::string& name = "lab")
      : name_(name), authority_(trust::make_authority(name, kLong).value()) {}

  trust::Credentials make(trust::Role role, const std::string& name,
                          trust::Validity validity = kLong) const {
    trust::Credentials made;
    made.own = trust::make_certificate({name_, role, name}, validity, authority_).value();
    made.info = trust::read_certificate(made.own.certificate).value();
    made.authority = authority_.certificate;
    made.deny_list = deny_list_;
    return made;
  }
  /// For all credentials made afterwards.
  void revoke(const trust::Credentials& credentials) {
    withdrawn_.push_back({credentials.info.serial, 1});
    deny_list_ = trust::make_deny_list(withdrawn_, withdrawn_.size(), kLong, authority_).value();
  }

 private:
  std::string name_;
  trust::KeyAndCertificate authority_;
  std::vector<trust::Withdrawn> withdrawn_;
  std::string deny_list_;
};

/// For a LinkSet or a carrier.
inline std::shared_ptr<const Tls> tls_of(const trust::Credentials& credentials) {
  return Tls::create(credentials).value();
}

}  // namespace troupe::link::test
