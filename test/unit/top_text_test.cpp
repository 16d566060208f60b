/* Tests of how pgq-top formats text and numbers. */
#include "shared/json.h"
#include "top/format.h"
#include "top/sparkline.h"
#include "top/text.h"

#include <gtest/gtest.h>

#include <clocale>
#include <limits>

namespace {

using namespace shared;
using namespace top;

class Text : public testing::Test
{
protected:
	void SetUp() override { ASSERT_NE(setlocale(LC_CTYPE, "C.UTF-8"), nullptr); }
	void TearDown() override { setlocale(LC_CTYPE, "C"); }
};

std::string
shown_both(std::string_view text)
{
	return shown(text, Charset::unicode) + "|" + shown(text, Charset::ascii);
}

TEST_F(Text, WhatOthersWroteIsShownAndDoesNothing)
{
	EXPECT_EQ(shown_both("plain \\ text"), "plain \\ text|plain \\ text");
	EXPECT_EQ(shown_both("a\nb\tc\rd"), "a\\nb\\tc\\rd|a\\nb\\tc\\rd");
	EXPECT_EQ(shown_both("\x1b[31m\x7f"), "\\x1b[31m\\x7f|\\x1b[31m\\x7f");
	EXPECT_EQ(shown_both(std::string_view("\0", 1)), "\\x00|\\x00");
	/* CSI as one code point; an override of the direction; an invisible blank */
	EXPECT_EQ(shown("\u009b", Charset::unicode), "\\u{9b}");
	EXPECT_EQ(shown("\u202ea\u200bb\ufeff", Charset::unicode), "\\u{202e}a\\u{200b}b\\u{feff}");
	EXPECT_EQ(shown_both("\u00fc"), "\u00fc|\\u{fc}");
}

TEST_F(Text, WhatIsNoUtf8IsShownByteByByte)
{
	EXPECT_EQ(shown("\xff", Charset::unicode), "\\xff");
	EXPECT_EQ(shown("\xc3", Charset::unicode), "\\xc3");
	EXPECT_EQ(shown("\xc3(", Charset::unicode), "\\xc3(");
	/* an encoding longer than necessary; a surrogate; a code point beyond the last */
	EXPECT_EQ(shown("\xc0\x80", Charset::unicode), "\\xc0\\x80");
	EXPECT_EQ(shown("\xe0\x80\x80", Charset::unicode), "\\xe0\\x80\\x80");
	EXPECT_EQ(shown("\xed\xa0\x80", Charset::unicode), "\\xed\\xa0\\x80");
	EXPECT_EQ(shown("\xf4\x90\x80\x80", Charset::unicode), "\\xf4\\x90\\x80\\x80");
}

TEST_F(Text, CodePointsComeBack)
{
	for (char32_t code : {U'a', U'\u007f', U'\u0080', U'\u07ff', U'\u0800', U'\ud7ff', U'\uffff',
						  U'\U00010000', U'\U0010ffff'})
	{
		std::string bytes = utf8_of(code);
		CodePoint point = first_code_point(bytes);
		EXPECT_TRUE(point.is_valid);
		EXPECT_EQ(point.code, code);
		EXPECT_EQ(point.bytes, bytes.size());
	}
}

TEST_F(Text, WideCharactersTakeTwoColumnsAndMarksNone)
{
	EXPECT_EQ(width_of("abc"), 3);
	EXPECT_EQ(width_of("\u65e5\u672c"), 4);
	EXPECT_EQ(width_of("e\u0301"), 1);
}

TEST_F(Text, LinesAreCutAtColumns)
{
	EXPECT_EQ(cut("abcdef", 6, Charset::ascii), "abcdef");
	EXPECT_EQ(cut("abcdef", 4, Charset::ascii), "abc~");
	EXPECT_EQ(cut("abcdef", 4, Charset::unicode), "abc\u2026");
	EXPECT_EQ(cut("abcdef", 0, Charset::ascii), "");
	/* There is no room for the second character beside the mark. */
	EXPECT_EQ(cut("\u65e5\u672c\u8a9e", 4, Charset::unicode), "\u65e5\u2026");
	EXPECT_EQ(fitted("\u65e5\u672c\u8a9e", 4, Align::left, Charset::unicode), "\u65e5\u2026 ");
	EXPECT_EQ(fitted("7", 3, Align::right, Charset::ascii), "  7");
	EXPECT_EQ(fitted("x", 3, Align::left, Charset::ascii), "x  ");
}

TEST_F(Text, LinesAreWrappedBetweenWords)
{
	using Lines = std::vector<std::string>;
	EXPECT_EQ(wrapped("", 5, 3, Charset::ascii), Lines());
	EXPECT_EQ(wrapped("one two", 9, 3, Charset::ascii), Lines({"one two"}));
	EXPECT_EQ(wrapped("one two three", 9, 3, Charset::ascii), Lines({"one two ", "three"}));
	EXPECT_EQ(wrapped("abcdefghij", 4, 2, Charset::ascii), Lines({"abcd", "efg~"}));
	/* A character that does not fit must not cause an endless loop. */
	EXPECT_EQ(wrapped("\u65e5\u672c", 1, 3, Charset::unicode), Lines());
}

TEST(Literal, CannotBeLeft)
{
	EXPECT_EQ(literal("mail"), "'mail'");
	EXPECT_EQ(literal("it's"), "'it''s'");
	EXPECT_EQ(literal("a\\'b"), " E'a\\\\''b'");
}

TEST(Format, CountsHaveAtMostFiveColumns)
{
	EXPECT_EQ(brief({}), "-");
	EXPECT_EQ(brief(0), "0");
	EXPECT_EQ(brief(99999), "99999");
	EXPECT_EQ(brief(100000), "100k");
	EXPECT_EQ(brief(999499), "999k");
	EXPECT_EQ(brief(999500), "1.0M");
	EXPECT_EQ(brief(1540000), "1.5M");
	EXPECT_EQ(brief(123456789), "123M");
	EXPECT_EQ(brief(std::numeric_limits<int64_t>::max()), "9.2E");
	EXPECT_EQ(exact(123456789), "123456789");
	EXPECT_EQ(exact({}), "-");
}

TEST(Format, Rates)
{
	EXPECT_EQ(rate({}), "-");
	EXPECT_EQ(rate(0), "0");
	EXPECT_EQ(rate(0.25), "0.25");
	EXPECT_EQ(rate(9.996), "10.0");
	EXPECT_EQ(rate(12.5), "12.5");
	EXPECT_EQ(rate(99.96), "100");
	EXPECT_EQ(rate(4711), "4711");
	EXPECT_EQ(rate(15000), "15k");
}

TEST(Format, Ages)
{
	EXPECT_EQ(age({}), "-");
	EXPECT_EQ(age(std::numeric_limits<double>::infinity()), "-");
	EXPECT_EQ(age(0), "0.0s");
	EXPECT_EQ(age(0.44), "0.4s");
	EXPECT_EQ(age(9.96), "10s");
	EXPECT_EQ(age(59.4), "59s");
	EXPECT_EQ(age(59.7), "1m00s");
	EXPECT_EQ(age(312), "5m12s");
	EXPECT_EQ(age(3599.9), "59m59s");
	EXPECT_EQ(age(3600), "1h00m");
	EXPECT_EQ(age(11100), "3h05m");
	EXPECT_EQ(age(86400), "1d00h");
	EXPECT_EQ(age(812.0 * 86400), "812d");
	EXPECT_EQ(age(-12), "-12s");
	EXPECT_EQ(age(-0.01), "0.0s");
}

TEST(Format, Latencies)
{
	EXPECT_EQ(latency({}), "-");
	EXPECT_EQ(latency(0), "0us");
	EXPECT_EQ(latency(0.00085), "850us");
	EXPECT_EQ(latency(0.0012), "1.2ms");
	EXPECT_EQ(latency(0.035), "35ms");
	EXPECT_EQ(latency(0.9996), "1.0s");
	EXPECT_EQ(latency(75), "1m15s");
}

TEST(Sparkline, TheLargestIsFullAndOnlyZeroIsTheLowest)
{
	EXPECT_EQ(sparkline({0, 1, 50, 100}, 4, Charset::ascii), "_.=#");
	EXPECT_EQ(sparkline({0, 1, 50, 100}, 4, Charset::unicode), "\u2581\u2582\u2585\u2588");
	EXPECT_EQ(sparkline({0, 0}, 2, Charset::ascii), "__");
	EXPECT_EQ(sparkline({7, 7}, 2, Charset::ascii), "##");
}

TEST(Sparkline, TheLastSamplesAreAtTheRight)
{
	EXPECT_EQ(sparkline({1}, 3, Charset::ascii), "  #");
	/* Samples that are not shown do not determine the scale. */
	EXPECT_EQ(sparkline({1000, 1, 1}, 2, Charset::ascii), "##");
	EXPECT_EQ(sparkline({Count(), 1}, 2, Charset::ascii), " #");
	EXPECT_EQ(sparkline({}, 2, Charset::ascii), "  ");
	EXPECT_EQ(sparkline({1}, 0, Charset::ascii), "");
}

TEST(Json, TextIsQuoted)
{
	EXPECT_EQ(json_text("a\"b\\c"), R"("a\"b\\c")");
	EXPECT_EQ(json_text("\n\x1b\x7f"), R"("\u000a\u001b\u007f")");
	EXPECT_EQ(json_text("\u00fc\xff"), "\"\u00fc\ufffd\"");
}

TEST(Json, Documents)
{
	Json json(Layout::lines);
	json.begin_object();
	json.name("n").number(Count(7));
	json.name("r").number(std::optional<double>(0.5));
	json.name("nan").number(std::optional<double>(std::numeric_limits<double>::quiet_NaN()));
	json.name("no").number(Count());
	json.name("t").text("x");
	json.name("empty").begin_array();
	json.end_array();
	json.name("list").begin_array();
	json.flag(true);
	json.flag(std::nullopt);
	json.end_array();
	json.end_object();
	EXPECT_EQ(json.document(), R"({
  "n": 7,
  "r": 0.5,
  "nan": null,
  "no": null,
  "t": "x",
  "empty": [],
  "list": [
    true,
    null
  ]
}
)");
}

} // namespace
