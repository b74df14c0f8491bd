// SPDX-License-Identifier: Apache-2.0
// Frames: what stands on a link's connections. A fixed head of 64 bytes, then the Cap'n Proto
// header of one envelope, then its payload. Pure: bytes in, frames out, no socket, no clock. Every
// length is checked against a limit before anything is allocated. One thread per decoder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "schemas/messages.h"

namespace troupe::link {

inline constexpr std::size_t kFrameHeadBytes = 64;
/// "TRPE" as little-endian bytes.
inline constexpr std::uint32_t kFrameMagic = 0x45505254;
/// Type of a frame that carries only its head, to acknowledge.
inline constexpr std::uint16_t kBareAck = 0xffff;

/// The fixed head. On the wire little-endian, in this order, behind the magic; magic and version
/// keep their places in every version.
struct FrameHead {
  std::uint16_t version = schemas::kProtocolVersion;
  std::uint16_t type = 0;              ///< position in schemas::Message, or kBareAck
  std::uint64_t job_hash = 0;          ///< base::hash64 of the job's id
  std::uint64_t generation = 0;        ///< as in the envelope
  std::uint64_t view = 0;              ///< as in the envelope
  std::uint64_t sequence = 0;          ///< 1, 2, ... on one lane; 0: not acknowledged, not resent
  std::uint64_t acknowledged = 0;      ///< the sender has the receiver's frames up to this one
  std::uint32_t header_bytes = 0;      ///< of the Cap'n Proto header
  std::uint32_t payload_bytes = 0;     ///< of the tensor bytes
  std::uint32_t payload_checksum = 0;  ///< CRC-32C of the payload; 0 where its carrier seals it
  friend bool operator==(const FrameHead&, const FrameHead&) = default;
};

/// The head's bytes, the last four a CRC-32C of those before and of `header`.
std::array<std::byte, kFrameHeadBytes> encode_frame_head(const FrameHead& head,
                                                         std::span<const std::byte> header);

/// Upper bounds for what one peer may send; lower ones hold before it has said Hello.
struct FrameLimits {
  std::size_t header_bytes_max = 0;
  std::size_t payload_bytes_max = 0;
};

/// What large headers that have not come whole may take together, of all connections that share it:
/// those of one peer, and with `all` those of all peers. One thread.
class HeaderBudget {
 public:
  explicit HeaderBudget(std::uint64_t bytes_max, std::shared_ptr<HeaderBudget> all = nullptr)
      : bytes_max_(bytes_max), all_(std::move(all)) {}
  /// False, and nothing is taken, when it would be too much.
  bool take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

 private:
  const std::uint64_t bytes_max_;
  const std::shared_ptr<HeaderBudget> all_;
  std::uint64_t taken_ = 0;
};

/// What a peer is whose first four bytes are HTTP's; empty: they are not.
std::string_view name_http(std::string_view first);

/// Where a decoder's frames go.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  /// Names the place for the payload of a frame whose head and header are whole and checked; asked
  /// only when there is a payload. An empty buffer: the payload is read and dropped. The place is
  /// garbage until on_frame, since the connection may end or the payload's checksum may fail.
  virtual base::Result<base::Buffer> place_payload(const FrameHead& head,
                                                   std::span<const std::byte> header) = 0;
  /// A whole frame with valid checksums. An error ends the decoding with it.
  virtual base::Status on_frame(const FrameHead& head, std::span<const std::byte> header,
                                base::Buffer payload) = 0;
};

/// Takes a connection's bytes in pieces of any size. Errors: version_mismatch with both numbers;
/// permission_denied: a port of TLS refuses bytes without it; data_loss for a wrong magic, type,
/// length or checksum; resource_exhausted beyond its budget; the receiver's own. The first stays.
class FrameDecoder {
 public:
  FrameDecoder(FrameLimits limits, FrameReceiver& receiver);
  ~FrameDecoder();
  FrameDecoder(const FrameDecoder&) = delete;
  FrameDecoder& operator=(const FrameDecoder&) = delete;

  /// Takes all of `bytes`.
  base::Status feed(std::span<const std::byte> bytes);
  /// While a payload is being read into its place: what is missing of it. Bytes of the connection
  /// may be put there instead of being fed; filled() then says how many.
  std::span<std::byte> direct() const;
  base::Status filled(std::size_t bytes);

  void set_limits(FrameLimits limits) { limits_ = limits; }
  /// Headers of more than 64 KiB take of it, as they come.
  void set_budget(std::shared_ptr<HeaderBudget> budget);
  /// The bytes come from a carrier that notices damage: payloads' checksums are not looked at.
  void trust_payloads() { sealed_ = true; }
  /// True between two frames.
  bool at_border() const { return part_ == Part::head && done_ == 0; }

 private:
  enum class Part : std::uint8_t { head, header, payload };

  std::size_t part_bytes() const;
  base::Status take(std::span<const std::byte>& bytes);
  base::Status advance();
  base::Status check_alert() const;
  base::Status check_preamble() const;
  base::Status finish_head();
  base::Status finish_header();
  base::Status finish_payload();
  base::Status hold(std::uint64_t bytes);
  void let_go();

  FrameLimits limits_;
  FrameReceiver& receiver_;
  bool sealed_ = false;
  base::Status fault_;
  Part part_ = Part::head;
  std::size_t done_ = 0;  ///< bytes of the present part
  std::array<std::byte, kFrameHeadBytes> head_bytes_{};
  FrameHead head_;
  std::uint32_t header_checksum_ = 0;
  std::vector<std::byte> header_;
  std::shared_ptr<HeaderBudget> budget_;  ///< null: there is no bound
  std::uint64_t held_ = 0;                ///< taken of it
  base::Buffer payload_;
};

}  // namespace troupe::link
