// SPDX-License-Identifier: Apache-2.0
// Bytes of messages, job specs and manifests: Cap'n Proto outside, plain structs inside. Decoding
// trusts nothing: bytes, list lengths, enums and numbers are checked, and the first fault is named.
// Pure functions over their arguments; any thread. No kj exception leaves this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "schemas/job_spec.h"
#include "schemas/manifest.h"
#include "schemas/messages.h"

namespace troupe::schemas {

// Limits of lists and texts on the wire; a longer one is refused, whatever the bytes allow.
inline constexpr std::size_t kRanksMax = 65'536;      ///< ranks, machines or shards of a job
inline constexpr std::uint32_t kThreadsMax = 1'024;   ///< of a worker's or a server's engine
inline constexpr std::size_t kNameBytesMax = 4'096;   ///< names, paths, addresses
inline constexpr std::size_t kTextBytesMax = 16'384;  ///< sentences for people
inline constexpr std::size_t kFingerprintBytesMax = 1u << 20;  ///< of a job, mean and std in full
inline constexpr std::size_t kMetricsMax = 256;                ///< metrics of one report
inline constexpr std::size_t kJobsMax = 4'096;                 ///< jobs of one list
inline constexpr std::size_t kMachinesListed = 4'096;          ///< machines of one list
inline constexpr std::size_t kRanksListed = 4'096;             ///< ranks of one list
inline constexpr std::size_t kChecksumsMax = 524'288;          ///< chunks of one shard's file
inline constexpr std::size_t kFactsMax = 131'072;              ///< slices of one shard's step
inline constexpr std::size_t kKeysMax = 65'536;                ///< keys of a job
inline constexpr std::size_t kLimitsMax = 1'024;               ///< named limits of a job
inline constexpr std::size_t kChannelsMax = 4'096;             ///< values of mean and std
inline constexpr std::size_t kModelBytesMax = 4'194'304;       ///< a symbol's JSON
inline constexpr std::size_t kKernelsBytesMax = 1'048'576;     ///< a job's kernel choices
inline constexpr std::size_t kNamedCheckpointsMax = 16;        ///< of a machine's folder
inline constexpr std::size_t kManifestBytesMax = 67'108'864;   ///< an encoded manifest

/// Largest header of messages of this type (position in Message): 16 KiB for what data connections
/// carry, at most 4 MiB for what control connections carry.
std::size_t header_bytes_max(std::size_t type);

/// Everything of an envelope but its payload. Errors: invalid_argument when longer than
/// header_bytes_max; the text names the message.
base::Result<std::string> encode_envelope(const Envelope& envelope);
/// Inverse of encode_envelope; the payload is empty. Errors: data_loss, naming the field.
base::Result<Envelope> decode_envelope(std::span<const std::byte> bytes);

/// A message alone, for messages inside messages.
base::Result<std::string> encode_message(const Message& message);
/// Inverse of encode_message. Errors: data_loss.
base::Result<Message> decode_message(std::string_view bytes);

/// A job spec with all its limits.
base::Result<std::string> encode_job_spec(const JobSpec& spec);
/// Inverse of encode_job_spec. Errors: data_loss, also for a limit that this program does not know.
base::Result<JobSpec> decode_job_spec(std::string_view bytes);

/// The content of a manifest file: {magic, format version, length, CRC-32C} and the message.
base::Result<std::string> encode_manifest(const Manifest& manifest);
/// Inverse of encode_manifest. Errors: data_loss for truncated or changed bytes; version_mismatch.
base::Result<Manifest> decode_manifest(std::string_view bytes);

}  // namespace troupe::schemas
