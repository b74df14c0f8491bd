// SPDX-License-Identifier: Apache-2.0
// NumericClass: everything outside a job that may change the bits it computes. Plain value.
#pragma once

#include <string>

namespace troupe::base {

/// Two processes with equal classes compute equal bits. Reported at registration, kept in
/// manifests.
struct NumericClass {
  std::string build;         ///< program version and compiler
  std::string onednn;        ///< library version
  std::string libm;          ///< C library version
  std::string isa;           ///< instruction set that kernels use, after the job's cap
  std::string caches;        ///< cache sizes that oneDNN's blocking sees
  int threads = 1;           ///< compute threads per worker
  std::string device_model;  ///< processor or accelerator model

  friend bool operator==(const NumericClass&, const NumericClass&) = default;
  /// One line, for errors that name two classes.
  std::string to_string() const;
};

}  // namespace troupe::base
