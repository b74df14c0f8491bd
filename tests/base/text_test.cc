// SPDX-License-Identifier: Apache-2.0
// Text that is cut, and text that a terminal would obey.
#include "base/text.h"

#include <rapidcheck.h>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("a text is cut at a character's end", "[text]") {
  CHECK(shortened("abcdef", 6) == "abcdef");
  CHECK(shortened("abcdefg", 6) == "abc...");
  CHECK(shortened("ab\u00fc\u00fc\u00fc", 6) == "ab...");  // not half of the u with dots
  CHECK(shortened("ab\u00fc\u00fc\u00fc", 7) == "ab\u00fc...");
  CHECK(shortened("\U0001f600\U0001f600", 6) == "...");
  CHECK(shortened("", 3).empty());
  CHECK(shortened(std::string(100, '\x80'), 10).size() <= 10);  // no UTF-8 at all
  rc::check("no longer than asked for", [] {
    const auto text = *rc::gen::arbitrary<std::string>();
    const auto most = *rc::gen::inRange<std::size_t>(3, 40);
    const std::string cut = shortened(text, most);
    RC_ASSERT(cut.size() <= most);
    if (text.size() <= most) RC_ASSERT(cut == text);
  });
}

TEST_CASE("control characters of every kind are shown as '?'", "[text]") {
  CHECK(printable("a\x1b]0;title\x07\nb\x7f") == "a?]0;title??b?");
  CHECK(printable("\u009b31m \u0080\u009f\u00a0") == "?31m ??\u00a0");  // C1: CSI in two bytes
  CHECK(printable("a\u202eb\u2066c\u2069\u200f\u2028") == "a?b?c???");
  CHECK(printable("\u2027\u202f\u2065\u206a\u2010\u200d") ==
        "\u2027\u202f\u2065\u206a\u2010\u200d");
  CHECK(printable("\x9b"
                  "31m") == "?31m");  // and in one, where a terminal takes bytes
  CHECK(printable("\u00fcber \u6f22 \U0001f600") == "\u00fcber \u6f22 \U0001f600");
  CHECK(printable("\xc3(\xed\xa0\x80\xc0\x8a\xf5") ==
        "?("
        "???"
        "??"
        "?");
  rc::check("nothing is left to obey", [] {
    const std::string line = printable(*rc::gen::arbitrary<std::string>());
    RC_ASSERT(!has_control(line));
    RC_ASSERT(printable(line) == line);
  });
}

TEST_CASE("control characters are found, other bytes are none", "[text]") {
  for (const char* text : {"a\nb", "\t", "\x7f", "x\u0085", "\u009b", "\u202e"})
    CHECK(has_control(text));
  for (const char* text : {"", "/a b/\u00fc", "/latin-\xfc/x", "\u00a0"}) {
    CHECK_FALSE(has_control(text));
  }
}

}  // namespace
}  // namespace troupe::base
