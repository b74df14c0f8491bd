// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for record files and the images in them: the input is a whole .rec file. Reads
// it with skipping and failing readers, checks that every byte is accounted for, decodes images of
// a bounded size.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/image_decode.h"
#include "data/image_record.h"
#include "data/record_file.h"

namespace troupe::data {
namespace {

constexpr std::uint64_t kPixelsMax = 1U << 16;

/// A file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* bytes, std::size_t size) : descriptor_(::memfd_create("rec", 0)) {
    TROUPE_CHECK(descriptor_ >= 0 && ::write(descriptor_, bytes, size) == ssize_t(size),
                 "no file in memory");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void decode_image(std::span<const std::byte> payload) {
  const auto record = decode_image_record(payload);
  if (!record.ok()) return;
  for (std::size_t i = 0; i < record->label_count(); ++i) (void)record->label(i);
  (void)verify_raw_checksum(*record);
  ImageDecoder decoder;
  const auto shape = decoder.shape(record->image);
  if (!shape.ok() || shape->pixels() > kPixelsMax) return;
  if (shape->bytes() > 4 * kPixelsMax) return;
  std::vector<std::uint8_t> pixels(shape->bytes());
  (void)decoder.decode(record->image, *shape, pixels);
}

void read_records(const std::shared_ptr<const RecordFile>& file, OnDamage on_damage) {
  RecordReaderOptions options;
  options.on_damage = on_damage;
  options.window_bytes = 64;
  RecordReader reader(file, options);
  std::uint64_t covered = 0;
  auto record = reader.next();
  for (; record.ok() && record->has_value(); record = reader.next()) {
    covered += (*record)->next_offset - (*record)->offset;
    decode_image((*record)->payload);
  }
  if (on_damage == OnDamage::fail) return;
  TROUPE_CHECK(record.ok() && covered + reader.damage().bytes == file->bytes(),
               "bytes are neither record nor damage");
}

}  // namespace
}  // namespace troupe::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace troupe::data;
  const MemoryFile memory(bytes, size);
  const auto file = RecordFile::open(memory.path()).value();
  read_records(file, OnDamage::skip);
  read_records(file, OnDamage::fail);
  return 0;
}
