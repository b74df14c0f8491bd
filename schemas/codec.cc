// SPDX-License-Identifier: Apache-2.0
// The border between bytes and structs: builds and reads whole Cap'n Proto messages, catches kj's
// exceptions, and bounds what a message may cost. The families of messages are in codec_*.cc.
#include "schemas/codec.h"

#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>
#include <new>

#include "base/hash.h"
#include "schemas/codec_internal.h"

namespace troupe::schemas {
namespace {

using base::Errc;
using base::Result;

constexpr std::size_t kDataHeaderBytes = 16'384;
constexpr std::size_t kSmallHeaderBytes = 4'096;
constexpr std::size_t kControlHeaderBytes = 65'536;
constexpr std::size_t kLargeHeaderBytes = 4'194'304;
/// Words that a reader may visit: every one of the message twice, since the question whether a
/// field is there (hasInitializer) follows a pointer into another segment as reading it does, and
/// some more for the root pointer. So a small message that points to the same bytes many times is
/// refused.
constexpr std::uint64_t kTraversalsMax = 2, kTraversalSlackWords = 64;
constexpr int kNestingMax = 16;
/// First segment on the stack: most headers fit, so encoding them allocates only the result.
constexpr std::size_t kScratchWords = 128;

/// Bytes of a message whose root `fill` puts in.
template <typename Root, typename Fill>
Result<std::string> encode_root(std::string_view what, std::size_t bytes_max, Fill fill) {
  try {
    capnp::word scratch[kScratchWords];
    std::memset(scratch, 0, sizeof scratch);
    capnp::MallocMessageBuilder builder(kj::arrayPtr(scratch, kScratchWords));
    fill(builder.initRoot<Root>());
    const std::size_t bytes = capnp::computeSerializedSizeInWords(builder) * sizeof(capnp::word);
    if (bytes > bytes_max) {
      return base::error(Errc::invalid_argument, "[codec] a {} of {} bytes; the limit is {}", what,
                         bytes, bytes_max);
    }
    const auto words = capnp::messageToFlatArray(builder);
    const auto flat = words.asBytes();
    return std::string(reinterpret_cast<const char*>(flat.begin()), flat.size());
  } catch (const kj::Exception& e) {
    return base::error(Errc::invalid_argument, "[codec] cannot encode a {}: {}", what,
                       e.getDescription().cStr());
  } catch (const std::bad_alloc&) {
    return base::error(Errc::resource_exhausted, "[codec] no memory to encode a {}", what);
  }
}

/// The bytes as words: in place when they lie right, else copied.
class Words {
 public:
  explicit Words(std::span<const std::byte> bytes) {
    const std::size_t count = bytes.size() / sizeof(capnp::word);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    if (address % alignof(capnp::word) == 0) {
      words_ = {reinterpret_cast<const capnp::word*>(bytes.data()), count};
    } else {
      copy_ = kj::heapArray<capnp::word>(count);
      std::memcpy(copy_.begin(), bytes.data(), count * sizeof(capnp::word));
      words_ = copy_;
    }
  }
  kj::ArrayPtr<const capnp::word> get() const { return words_; }

 private:
  kj::Array<capnp::word> copy_;
  kj::ArrayPtr<const capnp::word> words_;
};

/// Reads the root of `bytes` into a Plain by its get().
template <typename Root, typename Plain>
Result<Plain> decode_root(std::string_view what, std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) {
    return base::error(Errc::data_loss, "[codec] a {} of {} bytes is no whole number of words",
                       what, bytes.size());
  }
  try {
    const Words words(bytes);
    capnp::ReaderOptions options;
    options.traversalLimitInWords = kTraversalsMax * words.get().size() + kTraversalSlackWords;
    options.nestingLimit = kNestingMax;
    capnp::FlatArrayMessageReader reader(words.get(), options);
    if (reader.getEnd() != words.get().end()) {
      return base::error(Errc::data_loss, "[codec] bytes behind the end of a {}", what);
    }
    Plain plain;
    Intake intake;
    get(reader.getRoot<Root>(), plain, intake);
    TROUPE_TRY(intake.status().with_context([what] { return fmt::format("[codec] {}", what); }));
    return plain;
  } catch (const kj::Exception& e) {
    return base::error(Errc::data_loss, "[codec] malformed {}: {}", what,
                       e.getDescription().cStr());
  } catch (const std::bad_alloc&) {
    return base::error(Errc::resource_exhausted, "[codec] no memory to decode a {}", what);
  }
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// What stands before a manifest's message in its file.
struct ManifestHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t checksum;  ///< CRC-32C of the length and the message
  std::uint64_t length;    ///< of the message, bytes
};
static_assert(sizeof(ManifestHead) == 24);
constexpr char kManifestMagic[] = "TRPCKPT\n";

std::uint32_t manifest_checksum(std::uint64_t length, std::string_view message) {
  const auto seed = base::crc32c(std::as_bytes(std::span(&length, 1)));
  return base::crc32c(bytes_of(message), seed);
}

/// Also of what one process passes on for another, whose frame may be larger.
base::Status check_size(std::size_t type, std::size_t bytes) {
  if (bytes <= header_bytes_max(type)) return {};
  return base::error(Errc::data_loss, "[codec] a {} of {} bytes; the limit is {}",
                     message_name(type), bytes, header_bytes_max(type));
}

}  // namespace

std::size_t header_bytes_max(std::size_t type) {
  switch (type) {
    case type_of<GradientPush>():
    case type_of<PushAck>():
    case type_of<PushQuery>():
    case type_of<WeightPull>():
    case type_of<WeightReply>():
      return kDataHeaderBytes;
    case type_of<Hello>():
    case type_of<HelloReply>():
    case type_of<Ping>():
    case type_of<Pong>():
    case type_of<Goodbye>():
    case type_of<Challenge>():
    case type_of<Proof>():
      return kSmallHeaderBytes;
    case type_of<Finished>():
    case type_of<ShardCheckpoint>():
    case type_of<StepFacts>():
    case type_of<Placement>():
    case type_of<LaunchProcess>():
    case type_of<ProcessMessage>():
    case type_of<JobSubmit>():
    case type_of<JobList>():
    case type_of<DenyList>():
    case type_of<FilePiece>():
      return kLargeHeaderBytes;
    default:
      return kControlHeaderBytes;
  }
}

void put(wire::Envelope::Builder out, const Envelope& m) {
  const auto& [job, generation, view, from, to, message, payload, receipt] = m;
  static_cast<void>(payload);
  static_cast<void>(receipt);
  out.setJob(text_of(job));
  out.setGeneration(generation);
  out.setView(view);
  put(out.initFrom(), from);
  put(out.initTo(), to);
  put(out.initMessage(), message);
}

void get(wire::Envelope::Reader in, Envelope& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  out.view = in.getView();
  get(in.getFrom(), out.from, intake);
  get(in.getTo(), out.to, intake);
  get(in.getMessage(), out.message, intake);
}

Result<std::string> encode_envelope(const Envelope& envelope) {
  const std::size_t type = envelope.message.index();
  return encode_root<wire::Envelope>(message_name(type), header_bytes_max(type),
                                     [&](auto out) { put(out, envelope); });
}

Result<Envelope> decode_envelope(std::span<const std::byte> bytes) {
  TROUPE_TRY_ASSIGN(auto envelope, (decode_root<wire::Envelope, Envelope>("envelope", bytes)));
  TROUPE_TRY(check_size(envelope.message.index(), bytes.size()));
  return envelope;
}

Result<std::string> encode_message(const Message& message) {
  return encode_root<wire::Message>(message_name(message.index()),
                                    header_bytes_max(message.index()),
                                    [&](auto out) { put(out, message); });
}

Result<Message> decode_message(std::string_view bytes) {
  TROUPE_TRY_ASSIGN(auto message,
                    (decode_root<wire::Message, Message>("message", bytes_of(bytes))));
  TROUPE_TRY(check_size(message.index(), bytes.size()));
  return message;
}

Result<std::string> encode_job_spec(const JobSpec& spec) {
  return encode_root<wire::JobSpec>("job spec", kLargeHeaderBytes,
                                    [&](auto out) { put(out, spec); });
}

Result<JobSpec> decode_job_spec(std::string_view bytes) {
  return decode_root<wire::JobSpec, JobSpec>("job spec", bytes_of(bytes));
}

Result<std::string> encode_manifest(const Manifest& manifest) {
  TROUPE_TRY_ASSIGN(auto message,
                    encode_root<wire::Manifest>("manifest", kManifestBytesMax,
                                                [&](auto out) { put(out, manifest); }));
  ManifestHead head{};
  std::memcpy(head.magic, kManifestMagic, sizeof head.magic);
  head.version = manifest.format_version;
  head.length = message.size();
  head.checksum = manifest_checksum(head.length, message);
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + message;
}

Result<Manifest> decode_manifest(std::string_view bytes) {
  ManifestHead head{};
  if (bytes.size() < sizeof head) {
    return base::error(Errc::data_loss, "[manifest] truncated: {} bytes", bytes.size());
  }
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (std::memcmp(head.magic, kManifestMagic, sizeof head.magic) != 0) {
    return base::error(Errc::data_loss, "[manifest] not a manifest: wrong first bytes");
  }
  if (head.version != kManifestVersion) {
    return base::error(Errc::version_mismatch, "[manifest] has format {}, this program reads {}",
                       head.version, kManifestVersion);
  }
  if (head.length != bytes.size()) {
    return base::error(Errc::data_loss, "[manifest] {} bytes where {} are announced", bytes.size(),
                       head.length);
  }
  if (manifest_checksum(head.length, bytes) != head.checksum) {
    return base::error(Errc::data_loss, "[manifest] the checksum does not fit the content");
  }
  return decode_root<wire::Manifest, Manifest>("manifest", bytes_of(bytes));
}

}  // namespace troupe::schemas
