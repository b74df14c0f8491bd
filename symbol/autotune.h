// SPDX-License-Identifier: Apache-2.0
// Measuring instead of the rule: while a network is bound, every offer is run and the search for
// layouts counts with what that took. What came out is kept as KernelChoices. One thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ndarray/runtime.h"
#include "symbol/kernel_choices.h"
#include "symbol/layouts.h"
#include "symbol/measure_kernel.h"

namespace troupe::symbol {

/// Collects what a binding's searches measure and choose.
class Autotuner {
 public:
  /// Behind `seconds_max` seconds of measuring by `clock`, or once `stop` is set, if it is given,
  /// calls are left to the rule.
  Autotuner(MeasureFunction measure, const base::Clock& clock, double seconds_max,
            const std::atomic<bool>* stop = nullptr);

  /// ops::offers() of the call, with kernels by choice while there is time; counts what that took.
  base::Result<std::vector<ops::Offer>> offers(const ops::OpCall& call,
                                               std::vector<ops::Decline>* declines);
  /// Replaces the rule's seconds of a call's offers (one at least) by measured ones, least first.
  /// Offers that the rule puts far behind the best, and what cannot be run, have seconds in
  /// proportion to their rule's. A kernel by choice is left where it takes at most 97 % of the best
  /// other one's time.
  void time(const std::string& signature, const ops::OpCall& call, std::vector<ops::Offer>& offers);
  /// Gives offers of a call for which there is a choice the seconds that are stored with it.
  static void recall(const KernelChoice& choice, std::vector<ops::Offer>& offers);
  /// Notes what was weighed for a node with this call.
  void weighed(const std::string& signature, const std::vector<Alternative>& alternatives);

  /// Per call that was measured here: the kernel with which its nodes, and the reorders around
  /// them, take least.
  std::map<std::string, KernelChoice> choices() const;
  /// Calls that nobody had the time to measure.
  std::size_t left() const { return count_unmeasured(false); }
  /// Calls of which no kernel could be run.
  std::size_t failed() const { return count_unmeasured(true); }

 private:
  using SecondsOfKernels = std::map<std::string, double>;
  /// Of the calls of one signature, whatever their layouts.
  struct Times {
    double rule = std::numeric_limits<double>::infinity();      // the least of all offers
    double measured = std::numeric_limits<double>::infinity();  // the least; infinity: none
    SecondsOfKernels kernels;                                   // that were run
    std::set<std::string> wrong;                                // that compute something else
    bool failed = false;                                        // one, in time
  };

  /// How long it takes to measure a kernel whose run takes `by_rule` seconds by rule, as it was so
  /// far: one call may need all the time there is.
  double expected_cost(double by_rule) const;
  /// Whether there is time for something that takes `seconds`.
  bool in_time(double seconds = 0) const;
  std::size_t count_unmeasured(bool failed) const;

  const MeasureFunction measure_;
  const base::Clock& clock_;
  const double seconds_max_;
  const std::atomic<bool>* const stop_;
  double spent_ = 0;
  double beside_runs_ = 0;  // what measurements took beside their runs
  int measured_ = 0;
  double measured_sum_ = 0, rule_sum_ = 0;                        // of the best of each call
  std::map<std::string, Times> times_;                            // by signature
  std::map<std::string, std::vector<SecondsOfKernels>> weighed_;  // by signature, one per node
};

}  // namespace troupe::symbol
