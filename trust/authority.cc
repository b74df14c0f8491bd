// SPDX-License-Identifier: Apache-2.0
// The authority's folder: authority.pem, issued.json, denied.pem.
#include "trust/authority.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"

namespace troupe::trust {
namespace {

namespace fs = std::filesystem;
using base::Errc;
using base::Result;
using base::Status;
using nlohmann::json;

constexpr const char* kKeyFile = "authority.pem";
constexpr const char* kIssuedFile = "issued.json";
constexpr const char* kDeniedFile = "denied.pem";
constexpr std::uint64_t kFileBytesMax = 67'108'864;
constexpr int kFormat = 1;

Status write(const fs::path& file, const std::string& text, base::FileMode mode) {
  return base::write_file_atomically(file, std::as_bytes(std::span(text)), mode);
}

json to_json(const Issued& each) {
  return {{"serial", each.serial},
          {"identity", each.identity.uri()},
          {"from", each.validity.from},
          {"until", each.validity.until},
          {"withdrawn", each.withdrawn}};
}

/// What serial numbers are in a certificate: 20 bytes at most (RFC 5280), here in hex.
bool is_serial(const std::string& text) {
  constexpr std::size_t kDigitsMost = 40;
  return !text.empty() && text.size() <= kDigitsMost &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<Issued> from_json(const json& entry) {
  Issued each;
  TROUPE_TRY_ASSIGN(each.identity, parse_identity(entry.at("identity").get<std::string>()));
  each.serial = entry.at("serial").get<std::string>();
  if (!is_serial(each.serial)) {
    return base::error(Errc::data_loss, "'{}' is no serial number",
                       base::shortened(each.serial, base::kQuotedBytesMax));
  }
  each.validity = {entry.at("from").get<std::int64_t>(), entry.at("until").get<std::int64_t>()};
  each.withdrawn = entry.at("withdrawn").get<std::int64_t>();
  return each;
}

/// What issued.json holds.
struct Book {
  std::uint64_t lists = 0;
  std::vector<Issued> issued;
};

Result<Book> read_book(const fs::path& file) {
  TROUPE_TRY_ASSIGN(const std::string text, base::read_text_file(file, kFileBytesMax));
  Book book;
  try {
    const json root = json::parse(text);
    if (root.at("format") != kFormat) {
      return base::error(Errc::version_mismatch, "{}: format {}, this program reads {}",
                         file.string(), root.at("format").dump(), kFormat);
    }
    book.lists = root.at("lists").get<std::uint64_t>();
    for (const json& entry : root.at("certificates")) {
      auto each = from_json(entry);
      if (!each.ok()) return each.status().with_context(file.string());
      book.issued.push_back(std::move(each).value());
    }
  } catch (const json::exception& fault) {
    return base::error(Errc::data_loss, "{}: {}", file.string(), fault.what());
  }
  return book;
}

/// So long a serial number stays in lists beyond the certificate's end, or beyond its withdrawing
/// where that comes later: machines' clocks differ, and links may be up that were made with it.
constexpr std::int64_t kListedS = 7 * 86'400;

bool listed(const Issued& each, std::int64_t now) {
  if (each.withdrawn == 0) return false;
  return now <= std::max(each.validity.until, each.withdrawn) + kListedS;
}

bool holds(const Issued& each, std::int64_t now) {
  return each.withdrawn == 0 && each.validity.from <= now && !ended(each.validity, now);
}

}  // namespace

Result<Authority> Authority::create(const fs::path& folder, const std::string& cluster,
                                    Validity validity) {
  Authority made;
  made.folder_ = folder;
  TROUPE_TRY_ASSIGN(made.own_, make_authority(cluster, validity));
  TROUPE_TRY_ASSIGN(made.info_, read_certificate(made.own_.certificate));
  TROUPE_TRY_ASSIGN(made.lock_, base::FolderLock::take(folder, {}, base::FileMode::secret));
  std::error_code unknown;
  // A first try that did not come as far as the key has signed nothing.
  const auto book = read_book(folder / kIssuedFile);
  const bool begun = !fs::exists(folder / kKeyFile, unknown) && book.ok() && book->issued.empty();
  for (const char* name : {kKeyFile, kIssuedFile, kDeniedFile}) {
    if (begun || !fs::exists(folder / name, unknown)) continue;
    return base::error(Errc::already_exists, "{}: exists; an authority is made once",
                       (folder / name).string());
  }
  TROUPE_TRY(made.make_list(validity.from));
  TROUPE_TRY(made.save());
  // Last: an authority is there when its key is.
  TROUPE_TRY(
      write(folder / kKeyFile, made.own_.key + made.own_.certificate, base::FileMode::secret));
  return made;
}

Result<Authority> Authority::open(const fs::path& folder) {
  std::error_code unknown;
  const fs::path file = folder / kKeyFile;
  if (!fs::exists(file, unknown)) {
    return base::error(Errc::not_found, "{}: no authority is there; make one with: troupe ca init",
                       folder.string());
  }
  Authority opened;
  opened.folder_ = folder;
  TROUPE_TRY_ASSIGN(opened.lock_, base::FolderLock::take(folder, {}, base::FileMode::secret));
  TROUPE_TRY_ASSIGN(opened.own_.key, base::read_secret(file, kFileBytesMax));
  opened.own_.certificate = opened.own_.key;  // each reader takes its own block
  const Status matches = check_key(opened.own_);
  if (!matches.ok()) return matches.with_context(file.string());
  TROUPE_TRY_ASSIGN(opened.info_, read_certificate(opened.own_.certificate));
  TROUPE_TRY_ASSIGN(Book book, read_book(folder / kIssuedFile));
  opened.lists_ = book.lists;
  opened.issued_ = std::move(book.issued);
  TROUPE_TRY(opened.read_list());
  return opened;
}

Result<Credentials> Authority::issue(Role role, const std::string& name, Validity validity,
                                     std::int64_t now) {
  const Identity identity{cluster(), role, name};
  const auto same = std::find_if(issued_.begin(), issued_.end(), [&](const Issued& each) {
    return each.identity == identity && holds(each, now);
  });
  if (same != issued_.end()) {
    return base::error(Errc::already_exists,
                       "{} has certificate {}: renew it with its file, or revoke it",
                       identity.to_string(), same->serial);
  }
  return sign(identity, validity, now);
}

Result<Credentials> Authority::renew(const Credentials& old, Validity validity, std::int64_t now) {
  const auto known = std::find_if(issued_.begin(), issued_.end(), [&](const Issued& each) {
    return each.serial == old.info.serial && each.identity == old.info.identity;
  });
  if (known == issued_.end()) {
    return base::error(Errc::permission_denied,
                       "{}, certificate {}: this authority did not sign it",
                       old.info.identity.to_string(), old.info.serial);
  }
  if (known->withdrawn != 0) {
    return base::error(Errc::permission_denied, "{}, certificate {}: it was revoked",
                       old.info.identity.to_string(), old.info.serial);
  }
  return sign(old.info.identity, validity, now);
}

Result<Credentials> Authority::sign(const Identity& identity, Validity validity, std::int64_t now) {
  // Beyond its own end nobody would believe it.
  if (ended(info_.validity, now)) {
    return base::error(Errc::failed_precondition,
                       "the authority of cluster '{}' was valid until {}", cluster(),
                       base::format_date(info_.validity.until));
  }
  validity.until = std::min(validity.until, info_.validity.until);
  Credentials made;
  TROUPE_TRY_ASSIGN(made.own, make_certificate(identity, validity, own_));
  TROUPE_TRY_ASSIGN(made.info, read_certificate(made.own.certificate));
  const std::size_t certificate = own_.certificate.find("-----BEGIN CERTIFICATE");
  made.authority = own_.certificate.substr(certificate);
  made.deny_list = deny_list_;
  issued_.push_back({made.info.serial, identity, validity});
  // Written before anybody holds it: what is not in the book could not be revoked.
  const Status saved = save();
  if (saved.ok()) return made;
  issued_.pop_back();
  static_cast<void>(save());  // the book may have been written, and the list not
  return saved;
}

Status Authority::forget(const std::string& serial) {
  if (std::erase_if(issued_, [&](const Issued& each) { return each.serial == serial; }) == 0) {
    return base::error(Errc::not_found, "certificate {}: this authority did not sign it", serial);
  }
  return save();
}

/// Those that begin later, too, and those that have ended, as links stay up that were made with
/// them. Of one that was withdrawn already there is a new list: who asks again may not know whether
/// the first try was written.
Status Authority::revoke(Role role, const std::string& name, std::int64_t now) {
  const Identity identity{cluster(), role, name};
  bool any = false;
  for (Issued& each : issued_) {
    if (each.identity != identity) continue;
    if (each.withdrawn == 0) each.withdrawn = now;
    any = true;
  }
  if (!any) {
    return base::error(Errc::not_found, "{} has never had a certificate", identity.to_string());
  }
  TROUPE_TRY(make_list(now));
  return save();
}

/// The book is the truth, and is written first. Where the list is older than it, or cannot be read,
/// a revoke has ended between the two: it is completed here.
Status Authority::read_list() {
  const fs::path file = folder_ / kDeniedFile;
  auto text = base::read_text_file(file, kFileBytesMax);
  const auto number = text.ok() ? check_deny_list(*text, own_.certificate) : text.status();
  if (number.ok() && *number > lists_) {
    return base::error(Errc::data_loss,
                       "{} is of list {}, {} of list {}: an older book, which does not know all "
                       "that was revoked",
                       (folder_ / kIssuedFile).string(), lists_, file.string(), *number);
  }
  if (number.ok() && *number == lists_) {
    deny_list_ = std::move(text).value();
    return {};
  }
  std::int64_t newest = info_.validity.from;
  for (const Issued& each : issued_) newest = std::max(newest, each.withdrawn);
  TROUPE_TRY(make_list(newest));
  return save();
}

/// The list holds as long as the authority: a newer one replaces it, time does not.
Status Authority::make_list(std::int64_t now) {
  std::vector<Withdrawn> withdrawn;
  for (const Issued& each : issued_) {
    if (listed(each, now)) withdrawn.push_back({each.serial, each.withdrawn});
  }
  TROUPE_TRY_ASSIGN(deny_list_,
                    make_deny_list(withdrawn, ++lists_, {now, info_.validity.until}, own_));
  return {};
}

Status Authority::save() const {
  json book = {{"format", kFormat}, {"lists", lists_}, {"certificates", json::array()}};
  for (const Issued& each : issued_) book["certificates"].push_back(to_json(each));
  TROUPE_TRY(write(folder_ / kIssuedFile, book.dump(1) + "\n", base::FileMode::secret));
  return write(folder_ / kDeniedFile, deny_list_, base::FileMode::shared);
}

}  // namespace troupe::trust
