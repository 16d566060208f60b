#include "core/cron.h"

#include <array>

namespace pgq {

namespace {

struct Field
{
	std::string_view name;
	int least;
	int most;
	/* Names of the numbers from `least` on. NULL: numbers of this field have no names. */
	const std::string_view *names;
	int n_names;
	uint64_t Cron::*bits;
};

} // namespace

static constexpr std::string_view kMonths[] = {"jan", "feb", "mar", "apr", "may", "jun",
											   "jul", "aug", "sep", "oct", "nov", "dec"};
static constexpr std::string_view kWeekdays[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
static constexpr int kSunday = 7; /* crontab(5) allows 0 and 7 for Sunday */

static constexpr Field fields[] = {
	{"second", 0, 59, nullptr, 0, &Cron::seconds},
	{"minute", 0, 59, nullptr, 0, &Cron::minutes},
	{"hour", 0, 23, nullptr, 0, &Cron::hours},
	{"day of month", 1, 31, nullptr, 0, &Cron::days},
	{"month", 1, 12, kMonths, std::size(kMonths), &Cron::months},
	{"day of week", 0, kSunday, kWeekdays, std::size(kWeekdays), &Cron::weekdays},
};
static constexpr int kFields = std::size(fields);

namespace {

struct Nickname
{
	std::string_view word;
	std::string_view fields;
};

} // namespace

static constexpr Nickname nicknames[] = {
	{"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
	{"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},	  {"@midnight", "0 0 * * *"},
	{"@hourly", "0 * * * *"},
};

static char
lower(char c)
{
	return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

static bool
is_word(std::string_view text, std::string_view word)
{
	return text.size() == word.size() && std::equal(text.begin(), text.end(), word.begin(),
													[](char a, char b) { return lower(a) == b; });
}

/*
 * Return the part of *text before the separator, and leave the part behind it in *text (empty if
 * there is no separator).
 */
static std::string_view
split(std::string_view *text, char separator, bool *found)
{
	size_t at = text->find(separator);
	*found = at != std::string_view::npos;
	std::string_view head(text->data(), *found ? at : text->size());
	text->remove_prefix(*found ? at + 1 : text->size());
	return head;
}

/* Parse an unsigned decimal number of at most 4 digits. Return -1 if the text is no such number. */
static int
number_of(std::string_view text)
{
	int number = 0;
	if (text.empty() || text.size() > 4)
		return -1;
	for (char c : text)
	{
		if (c < '0' || c > '9')
			return -1;
		number = number * 10 + (c - '0');
	}
	return number;
}

/* Return the value of a number or name of the field; -1 if the text is neither, or out of range. */
static int
value_of(const Field &field, std::string_view text)
{
	for (int i = 0; i < field.n_names; i++)
		if (is_word(text, field.names[i]))
			return field.least + i;
	int number = number_of(text);
	return number >= field.least && number <= field.most ? number : -1;
}

/*
 * Parse one item of a list: a star, a number, or a range such as 1-5. A star or a range may have a
 * step, as in 1-5/2. Set the bits of the values; return false on a syntax error.
 */
static bool
parse_item(const Field &field, std::string_view text, uint64_t *bits)
{
	bool stepped;
	bool ranged;
	std::string_view rest = text;
	std::string_view range = split(&rest, '/', &stepped);
	int step = stepped ? number_of(rest) : 1;
	int first = field.least;
	int last = field.names == kWeekdays ? kSunday - 1 : field.most;
	if (range != "*")
	{
		std::string_view end = range;
		std::string_view begin = split(&end, '-', &ranged);
		first = value_of(field, begin);
		last = ranged ? value_of(field, end) : first;
		/* At the end of a range, Sunday is 7, for example in "fri-sun". */
		if (ranged && field.names == kWeekdays && last == 0 && first > 0)
			last = kSunday;
		if (first < 0 || last < first || (stepped && !ranged))
			return false;
	}
	if (step < 1)
		return false;
	for (int value = first; value <= last; value += step)
		*bits |= uint64_t{1} << value;
	return true;
}

static bool
parse_field(const Field &field, std::string_view text, Cron *cron)
{
	uint64_t bits = 0;
	bool more = true;
	while (more)
		if (!parse_item(field, split(&text, ',', &more), &bits))
			return false;
	if (field.names == kWeekdays && has_bit(bits, kSunday))
		bits = (bits | 1) & ~(uint64_t{1} << kSunday);
	cron->*field.bits = bits;
	return true;
}

/*
 * Split the text at blanks. Return the number of words; only the first kFields of them are stored.
 */
static int
words_of(std::string_view text, std::array<std::string_view, kFields> *words)
{
	static constexpr std::string_view kBlanks = " \t\n\r";
	int n = 0;
	for (;;)
	{
		size_t begin = text.find_first_not_of(kBlanks);
		if (begin == std::string_view::npos)
			return n;
		text.remove_prefix(begin);
		std::string_view word(text.data(), std::min(text.size(), text.find_first_of(kBlanks)));
		if (n < kFields)
			(*words)[n] = word;
		n++;
		text.remove_prefix(word.size());
	}
}

bool
parse_cron(std::string_view text, Cron *cron, CronError *error)
{
	std::array<std::string_view, kFields> words;
	*cron = {};
	int n = words_of(text, &words);
	for (const Nickname &nickname : nicknames)
		if (n == 1 && is_word(words[0], nickname.word))
			n = words_of(nickname.fields, &words);
	*error = {{}, text};
	if (n != kFields && n != kFields - 1)
		return false;
	/* A text with five fields has no field for the seconds; the seconds are then 0. */
	const Field *field = fields + kFields - n;
	cron->seconds = 1;
	for (int i = 0; i < n; i++)
		if (!parse_field(field[i], words[i], cron))
		{
			*error = {field[i].name, words[i]};
			return false;
		}
	cron->any_hour = words[n - 4][0] == '*';
	cron->any_day = words[n - 3][0] == '*';
	cron->any_weekday = words[n - 1][0] == '*';
	return true;
}

} // namespace pgq
