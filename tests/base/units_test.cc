// SPDX-License-Identifier: Apache-2.0
// Units that people write, numbers that people read, words that people mistype.
#include "base/units.h"

#include <vector>

#include "base/name.h"
#include "base/suggest.h"
#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("names are plain", "[name]") {
  for (const char* good : {"a", "fashion-lenet", "v1.2_x", "..a"}) CHECK(plain_name(good));
  for (const char* bad : {"", ".", "..", "a/b", "a b", "a\n", "\xc3\xa4", "-a", "--help"})
    CHECK(!plain_name(bad));
  CHECK(plain_name(std::string(64, 'x')));
  CHECK(!plain_name(std::string(65, 'x')));
}

TEST_CASE("durations and sizes are read with their units", "[units]") {
  CHECK(parse_duration_ms("250ms").value() == 250);
  CHECK(parse_duration_ms("1.5 s").value() == 1'500);
  CHECK(parse_duration_ms("30m").value() == 1'800'000);
  CHECK(parse_duration_ms("2h").value() == 7'200'000);
  CHECK(parse_bytes("512").value() == 512);
  CHECK(parse_bytes("64k").value() == 65'536);
  CHECK(parse_bytes("1.5 MiB").value() == 1'572'864);
  CHECK(parse_bytes("8GB").value() == 8'589'934'592);
  for (const char* bad : {"", "s", "10", "10 years", "-1s", "nan s", "1e300h", "0.1ms"}) {
    INFO(bad);
    CHECK(parse_duration_ms(bad).status().code() == Errc::invalid_argument);
  }
  for (const char* bad : {"", "k", "8q", "-1k", "inf", "1e30t", "0.0001k"}) {
    INFO(bad);
    CHECK(parse_bytes(bad).status().code() == Errc::invalid_argument);
  }
}

TEST_CASE("numbers are written for people", "[units]") {
  CHECK(format_duration(41) == "0:41");
  CHECK(format_duration(3723) == "1:02:03");
  CHECK(format_duration(1e30) == "99999:59:59");
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1,000");
  CHECK(format_count(1234567) == "1,234,567");
  CHECK(format_counted(0, "rank") == "0 ranks");
  CHECK(format_counted(1, "rank") == "1 rank");
  CHECK(format_counted(1, "process") == "1 process");
  CHECK(format_counted(1000, "process") == "1,000 processes");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1'572'864) == "1.5 MiB");
}

TEST_CASE("the nearest word is offered when it is near", "[suggest]") {
  const std::vector<std::string> known = {"machines", "devices", "threads", "count"};
  CHECK(edit_distance("cuont", "count") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  const std::vector<std::string> long_words = {std::string(65, 'x')};
  CHECK(nearest_word(std::string(64, 'x'), long_words) == long_words.front());
  CHECK(nearest_word(std::string(65, 'x'), long_words).empty());  // too long to be a slip
  const std::vector<std::string> networks = {"googlenet", "mobilenet-v2", "vgg16", "vgg-a"};
  CHECK(nearest_word("mobilenet", networks) == "mobilenet-v2");  // it goes on there
  CHECK(nearest_word("VGG", networks) == "vgg16");
  CHECK(nearest_word("vg", networks).empty());
  CHECK(did_you_mean("COUNT", known) == "; did you mean 'count'?");
  CHECK(did_you_mean("cuont", known) == "; did you mean 'count'?");
  CHECK(did_you_mean("machine", known) == "; did you mean 'machines'?");
  CHECK(did_you_mean("zebra", known).empty());
  CHECK(did_you_mean("x", {}).empty());
}

}  // namespace
}  // namespace troupe::base
