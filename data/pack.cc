// SPDX-License-Identifier: Apache-2.0
// Packers over one writer of record file and index.
#include "data/pack.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "data/generated_image.h"
#include "data/idx_file.h"
#include "data/image_decode.h"
#include "data/index.h"
#include "data/record_file.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;
namespace fs = std::filesystem;

namespace {

// A file of the folder packer, which is held in memory whole.
constexpr std::uint64_t kImageFileBytesMax = std::uint64_t{1} << 28;
constexpr std::uint64_t kFolderEntriesMax = std::uint64_t{1} << 26;

/// resource_exhausted where the folder's file system has no room for so many images.
Status check_room(const fs::path& folder, std::uint64_t images, const ImageShape& image) {
  constexpr std::uint64_t kHeads = 48;  // of the record, its labels and the raw image
  std::error_code code;
  const fs::space_info space = fs::space(folder, code);
  if (code || space.capacity == 0) return {};  // it has no idea
  const double wanted = static_cast<double>(images) * static_cast<double>(image.bytes() + kHeads);
  if (wanted <= static_cast<double>(space.available)) return {};
  return error(Errc::resource_exhausted, "{}: the images take {}, {} are free", folder.string(),
               base::format_bytes(static_cast<std::uint64_t>(wanted)),
               base::format_bytes(space.available));
}

/// One record file with its index, visible after finish() and commit().
class Packer {
 public:
  Packer(const fs::path& path, Stop stop)
      : writer_(path),
        index_(index_path(path), base::FileMode::shared, base::LinkRule::replace),
        stop_(stop) {
    report_.path = path;
  }

  Status open() { return writer_.open(); }

  Status add_raw(std::uint32_t label, const ImageShape& shape,
                 std::span<const std::uint8_t> pixels) {
    const auto value = static_cast<float>(label);
    encode_raw_record({&value, 1}, writer_.records(), shape, pixels, record_);
    return add(label, shape);
  }

  Status add_encoded(std::uint32_t label, const ImageShape& shape,
                     std::span<const std::byte> image) {
    const auto value = static_cast<float>(label);
    encode_image_record({&value, 1}, writer_.records(), image, record_);
    return add(label, shape);
  }

  /// Writes all under temporary names, so that what commit() does needs no room.
  Status finish() {
    TROUPE_TRY(writer_.flush());
    TROUPE_TRY(index_.open());
    constexpr std::size_t kPiece = 65'536;  // text of millions would take much memory
    for (std::size_t i = 0; i < entries_.size(); i += kPiece) {
      const std::span rest = std::span(entries_).subspan(i);
      const std::string text = index_text(rest.first(std::min(kPiece, rest.size())));
      TROUPE_TRY(index_.write(std::as_bytes(std::span(text))));
    }
    return {};
  }

  Status commit() {
    const fs::path index = index_path(report_.path);
    // Never an old index beside a new file: without one the file is still read correctly.
    std::error_code problem;
    fs::remove(index, problem);
    if (problem) {
      return error(base::errc_of_errno(problem.value()), "{}: cannot remove: {}", index.string(),
                   problem.message());
    }
    TROUPE_TRY(writer_.commit());
    report_.bytes = writer_.bytes();
    report_.records = writer_.records();
    return index_.commit();
  }

  const PackedFile& report() const { return report_; }

 private:
  Status add(std::uint32_t label, const ImageShape& shape) {
    if (stop_ != nullptr && stop_->load()) return error(Errc::cancelled, "packing was stopped");
    const std::uint64_t key = writer_.records();
    TROUPE_TRY_ASSIGN(const std::uint64_t offset, writer_.append(record_));
    entries_.push_back({key, offset});
    report_.image = shape;
    report_.classes = std::max(report_.classes, label + 1);
    return {};
  }

  RecordWriter writer_;
  base::AtomicFile index_;
  std::vector<IndexEntry> entries_;
  std::vector<std::byte> record_;
  PackedFile report_;
  Stop stop_;
};

Result<std::unique_ptr<Packer>> pack_idx_pair(const IdxPair& pair, const fs::path& out, Stop stop) {
  TROUPE_TRY_ASSIGN(IdxFile images, IdxFile::open(pair.images));
  TROUPE_TRY_ASSIGN(IdxFile labels, IdxFile::open(pair.labels));
  const auto& extents = images.extents();
  if (extents.size() != 3 || labels.extents().size() != 1) {
    return error(Errc::invalid_argument,
                 "{} has {} axes and {} has {}: images need 3 (count, height, width), labels 1",
                 images.path().string(), extents.size(), labels.path().string(),
                 labels.extents().size());
  }
  if (images.items() != labels.items()) {
    return error(Errc::invalid_argument, "{} holds {} images but {} holds {} labels",
                 images.path().string(), images.items(), labels.path().string(), labels.items());
  }
  if (images.items() == 0) {
    return error(Errc::invalid_argument, "{} holds no images", images.path().string());
  }
  const ImageShape shape{1, extents[1], extents[2]};
  if (const Status fits = check_image_shape(shape); !fits.ok()) {
    return fits.with_context(images.path().string());
  }
  if (images.items() > kPackedMax) {
    return error(Errc::resource_exhausted, "{} holds {} images; the limit is {}",
                 images.path().string(), images.items(), kPackedMax);
  }
  TROUPE_TRY(check_room(out.parent_path(), images.items(), shape));
  auto packer = std::make_unique<Packer>(out, stop);
  TROUPE_TRY(packer->open());
  std::vector<std::uint8_t> pixels(shape.bytes());
  std::uint8_t label = 0;
  for (std::uint64_t i = 0; i < images.items(); ++i) {
    TROUPE_TRY(images.read_item(pixels));
    TROUPE_TRY(labels.read_item({&label, 1}));
    TROUPE_TRY(packer->add_raw(label, shape, pixels));
  }
  TROUPE_TRY(images.expect_end());
  TROUPE_TRY(labels.expect_end());
  return packer;
}

/// What an earlier call left does not stay beside another training set.
Status remove_files(std::initializer_list<fs::path> files) {
  for (const fs::path& file : files) {
    std::error_code problem;
    fs::remove(file, problem);
    if (!problem) continue;
    return error(base::errc_of_errno(problem.value()), "{}: cannot remove: {}", file.string(),
                 problem.message());
  }
  return {};
}

/// The training set, and the test set and the names of classes where there are some.
Result<PackReport> commit_all(std::vector<std::unique_ptr<Packer>> packers, const fs::path& out,
                              base::AtomicFile* classes = nullptr) {
  PackReport report;
  for (const auto& packer : packers) TROUPE_TRY(packer->finish());
  if (packers.size() < 2) {
    TROUPE_TRY(remove_files({out / "test.rec", index_path(out / "test.rec")}));
  }
  if (classes == nullptr) TROUPE_TRY(remove_files({out / kClassesFile}));
  for (const auto& packer : packers) {
    TROUPE_TRY(packer->commit());
    report.files.push_back(packer->report());
  }
  if (classes != nullptr) TROUPE_TRY(classes->commit());
  return report;
}

/// Names in byte order, without hidden ones; `folders` or plain files.
Result<std::vector<std::string>> list_folder(const fs::path& folder, bool folders) {
  std::error_code problem;
  std::vector<std::string> names;
  fs::directory_iterator at(folder, problem);
  for (; !problem && at != fs::directory_iterator(); at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unknown;
    const fs::file_status found = at->status(unknown);
    if (!fs::exists(found)) {  // a link that leads nowhere, for one: its class would be missing
      return base::file_error(at->path(), "open", unknown.value());
    }
    if (fs::is_directory(found) != folders) continue;
    names.push_back(name);
    if (names.size() > kFolderEntriesMax) {
      return error(Errc::resource_exhausted, "{}: holds more than {} entries", folder.string(),
                   kFolderEntriesMax);
    }
  }
  if (problem) {
    return error(base::errc_of_errno(problem.value()), "{}: cannot list the folder: {}",
                 folder.string(), problem.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Class names in byte order with their labels.
using Classes = std::map<std::string, std::uint32_t>;

Result<Classes> list_classes(const fs::path& folder) {
  TROUPE_TRY_ASSIGN(const auto names, list_folder(folder, true));
  Classes classes;
  for (const std::string& name : names) {
    if (name.find('\n') != std::string::npos) {
      return error(Errc::invalid_argument, "{}: a class name holds a line break", folder.string());
    }
    classes.emplace(name, static_cast<std::uint32_t>(classes.size()));
  }
  if (classes.empty()) {
    return error(Errc::invalid_argument, "{}: has no sub-folders, one per class is needed",
                 folder.string());
  }
  return classes;
}

/// Packs the folders of one call; the first image's size holds for all of them.
class FolderPacker {
 public:
  FolderPacker(const FolderPackOptions& options, Classes classes)
      : options_(options), classes_(std::move(classes)) {}

  Result<std::unique_ptr<Packer>> pack(const fs::path& folder, const std::string& name) {
    auto packer = std::make_unique<Packer>(options_.out / name, options_.stop);
    TROUPE_TRY(packer->open());
    TROUPE_TRY_ASSIGN(const auto names, list_folder(folder, true));
    for (const std::string& class_name : names) {
      const auto found = classes_.find(class_name);
      if (found == classes_.end()) {
        return error(Errc::invalid_argument, "{}: {} has no such class",
                     (folder / class_name).string(), options_.train.string());
      }
      TROUPE_TRY_ASSIGN(const auto deeper, list_folder(folder / class_name, true));
      if (!deeper.empty()) {
        return error(Errc::invalid_argument, "{}: a folder within a class, whose own images count",
                     (folder / class_name / deeper.front()).string());
      }
      TROUPE_TRY_ASSIGN(const auto files, list_folder(folder / class_name, false));
      for (const std::string& file : files) {
        TROUPE_TRY(add(folder / class_name / file, found->second, *packer));
      }
    }
    if (packer->report().image.bytes() == 0) {
      return error(Errc::invalid_argument, "{}: no image in it; it needs a folder per class",
                   folder.string());
    }
    return packer;
  }

  const Classes& classes() const { return classes_; }

 private:
  Status add(const fs::path& file, std::uint32_t label, Packer& packer) {
    TROUPE_TRY_ASSIGN(const auto bytes, base::read_file(file, kImageFileBytesMax));
    if (shape_.bytes() == 0) TROUPE_TRY(take_shape(file, bytes));
    const Status status = decoder_.decode(bytes, shape_, pixels_);
    if (!status.ok()) return status.with_context(file.string());
    if (options_.keep_encoded) return packer.add_encoded(label, shape_, bytes);
    return packer.add_raw(label, shape_, pixels_);
  }

  Status take_shape(const fs::path& file, std::span<const std::byte> bytes) {
    const Result<ImageShape> shape = decoder_.shape(bytes);
    if (!shape.ok()) return shape.status().with_context(file.string());
    if (const Status fits = check_image_shape(*shape); !fits.ok()) {
      return fits.with_context(file.string());
    }
    shape_ = *shape;
    pixels_.resize(shape_.bytes());
    return {};
  }

  const FolderPackOptions& options_;
  Classes classes_;
  ImageDecoder decoder_;
  ImageShape shape_;
  std::vector<std::uint8_t> pixels_;
};

/// The images [first, first + records).
Result<std::unique_ptr<Packer>> pack_generated_part(const GeneratedPackOptions& options,
                                                    const char* name, std::uint64_t first,
                                                    std::uint64_t records) {
  auto packer = std::make_unique<Packer>(options.out / name, options.stop);
  TROUPE_TRY(packer->open());
  ImageGenerator generator(options.image, options.seed);
  for (std::uint64_t i = 0; i < records; ++i) {
    const auto label = static_cast<std::uint32_t>(i % options.classes);
    TROUPE_TRY(packer->add_raw(label, options.image, generator.image(label, first + i)));
  }
  return packer;
}

Status check_generated(const GeneratedPackOptions& options) {
  TROUPE_TRY(check_image_shape(options.image));
  if (options.classes < 1 || options.classes > kGeneratedClassesMax) {
    return error(Errc::invalid_argument, "classes is {}, not from 1 to {}", options.classes,
                 kGeneratedClassesMax);
  }
  if (options.train < 1 || options.train > kPackedMax || options.test > kPackedMax) {
    return error(Errc::invalid_argument,
                 "{} training and {} test images: from 1, and from 0, to {} can be made",
                 options.train, options.test, kPackedMax);
  }
  return {};
}

}  // namespace

std::string PackReport::to_string() const {
  std::string text;
  for (const PackedFile& file : files) {
    text += fmt::format("{}: {} records of {}, {} classes, {} bytes\n",
                        base::printable(file.path.string()), file.records, file.image.to_string(),
                        file.classes, file.bytes);
  }
  return text;
}

Result<PackReport> pack_fashion_mnist(const fs::path& source, const fs::path& out, Stop stop) {
  IdxPackOptions options;
  options.train = {source / "train-images-idx3-ubyte.gz", source / "train-labels-idx1-ubyte.gz"};
  options.test =
      IdxPair{source / "t10k-images-idx3-ubyte.gz", source / "t10k-labels-idx1-ubyte.gz"};
  options.out = out;
  options.stop = stop;
  Result<PackReport> report = pack_idx(options);
  if (report.ok() || report.status().code() != Errc::not_found) return report;
  return error(Errc::not_found, "{}; Debian's package dataset-fashion-mnist has these files",
               report.status().text());
}

Result<PackReport> pack_idx(const IdxPackOptions& options) {
  TROUPE_TRY(base::make_folder(options.out, base::FileMode::shared));
  std::vector<std::unique_ptr<Packer>> packers(1);
  TROUPE_TRY_ASSIGN(packers[0],
                    pack_idx_pair(options.train, options.out / "train.rec", options.stop));
  if (options.test) {
    TROUPE_TRY_ASSIGN(auto test,
                      pack_idx_pair(*options.test, options.out / "test.rec", options.stop));
    packers.push_back(std::move(test));
  }
  return commit_all(std::move(packers), options.out);
}

Result<PackReport> pack_images(const FolderPackOptions& options) {
  TROUPE_TRY_ASSIGN(Classes classes, list_classes(options.train));
  TROUPE_TRY(base::make_folder(options.out, base::FileMode::shared));
  FolderPacker folder(options, std::move(classes));
  std::vector<std::unique_ptr<Packer>> packers(1);
  TROUPE_TRY_ASSIGN(packers[0], folder.pack(options.train, "train.rec"));
  if (options.test) {
    TROUPE_TRY_ASSIGN(auto test, folder.pack(*options.test, "test.rec"));
    packers.push_back(std::move(test));
  }
  std::string names;
  for (const auto& [name, label] : folder.classes()) names += name + "\n";
  base::AtomicFile list(options.out / kClassesFile);
  TROUPE_TRY(list.open());
  TROUPE_TRY(list.write(std::as_bytes(std::span<const char>(names))));
  return commit_all(std::move(packers), options.out, &list);
}

Result<PackReport> pack_generated(const GeneratedPackOptions& options) {
  TROUPE_TRY(check_generated(options));
  TROUPE_TRY(base::make_folder(options.out, base::FileMode::shared));
  TROUPE_TRY(check_room(options.out, options.train + options.test, options.image));
  std::vector<std::unique_ptr<Packer>> packers(1);
  TROUPE_TRY_ASSIGN(packers[0], pack_generated_part(options, "train.rec", 0, options.train));
  if (options.test > 0) {
    TROUPE_TRY_ASSIGN(auto test,
                      pack_generated_part(options, "test.rec", options.train, options.test));
    packers.push_back(std::move(test));
  }
  return commit_all(std::move(packers), options.out);
}

}  // namespace troupe::data
