/* Text of the help screen. */
#pragma once

#include <array>

namespace top {

constexpr std::array kHelp = {
	"1 queues   2 jobs in work   3 dead letters   4 health   5 handlers   6 batches",
	"h this      Tab the next screen",
	"Up Down PgUp PgDn Home End   choose a row",
	"< >   sort by the column before, after      i   the other way round",
	"Space look now      q quit",
	"",
	"p pause, r resume   the queue: no more, again jobs of it are handed out",
	"d redrive           all dead letters of the queue become jobs again",
	"t retry             the dead letter becomes a job again",
	"c cancel            the job is ended and its lease revoked; a dead letter is deleted",
	"Each asks before. A key in (parentheses) says why it is not allowed.",
	"",
	"OLDEST  age of the oldest ready job     IN/S OUT/S ACK/S  jobs enqueued, handed out, acked",
	"WORKERS  running, and at most     REST  until the next call of a handler whose calls fail",
	"NEXT TRY  until a callback of a batch that could not be enqueued is tried again",
	"WAIT95 RUN95  95 of 100 jobs waited, ran for no longer     WAITING  claims that wait",
	"-  is not known, or may not be seen; lines with ! say why",
};

} // namespace top
