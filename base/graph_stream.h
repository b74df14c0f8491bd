// SPDX-License-Identifier: Apache-2.0
// GraphStream: a stream that can write down what is issued on it, to issue all of it again in one
// call (CUDA graphs). Only the issuing thread of the stream may call it.
#pragma once

#include <memory>

#include "base/stream.h"

namespace troupe::base {

/// Work that was written down. It may be dropped while launches of it have not run.
class StreamGraph {
 public:
  virtual ~StreamGraph() = default;
};

/// A stream that writes down its work; see the top of the file.
class GraphStream : public Stream {
 public:
  /// What is issued from now on is written down and does not run, with the addresses and values
  /// that it is issued with. Nobody calls record() or wait_for() before end_graph().
  virtual Status begin_graph() = 0;
  /// What was issued since begin_graph(), which must have succeeded; the device's error where some
  /// of it cannot be written down. Nothing of it has run, and the stream is as before, either way.
  virtual Result<std::shared_ptr<StreamGraph>> end_graph() = 0;
  /// Queues the work of a graph of this stream behind all that was issued so far.
  virtual Status launch(const std::shared_ptr<StreamGraph>& graph) = 0;
};

}  // namespace troupe::base
