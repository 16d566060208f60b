#include "engine/handler_crash.h"

#include <fcntl.h>
#include <unistd.h>

namespace pgq {

/* ---- the file ---- */

namespace {

/* The call in which a worker was when the worker last wrote to the file. */
struct CallNote
{
	HandlerCall call;
	uint32 in_call;
	uint32 soon;
};

struct CrashFile
{
	char magic[8];
	uint32 size;
	uint32 noted; /* the postmaster has noted the end of the server */
	/*
	 * The time of the write, by both clocks. The monotonic clock may begin again when the machine
	 * starts.
	 */
	TimestampTz wall;
	int64 monotonic;
	HandlerSuspects suspects;
	CallNote calls[kHoldMax]; /* indexed by slot; max_handler_workers is at most kHoldMax */
};
static_assert(std::is_trivially_copyable_v<CrashFile> && std::is_standard_layout_v<CrashFile>);

} // namespace

static constexpr char kPath[] = PG_STAT_TMP_DIR "/pgq_ext.calls";
static constexpr char kNewPath[] = PG_STAT_TMP_DIR "/pgq_ext.calls.new";
static constexpr char kMagic[8] = "pgqcall";

static bool
read_crash_file(CrashFile *content)
{
	int file = open(kPath, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	ssize_t length = read(file, content, sizeof(*content));
	(void) close(file);
	return length == sizeof(*content) && memcmp(content->magic, kMagic, sizeof(kMagic)) == 0 &&
		   content->size == sizeof(*content);
}

/*
 * Write the file again, without calls. No worker has the file open. durable: after a crash of the
 * machine the file has either its old or its new content.
 */
static bool
write_crash_file(const HandlerSuspects &suspects, bool noted, bool durable)
{
	static constinit CrashFile content = {};
	memcpy(content.magic, kMagic, sizeof(kMagic));
	content.size = sizeof(content);
	content.noted = noted;
	content.wall = wall_now();
	content.monotonic = monotonic_now();
	content.suspects = suspects;
	int file = open(kNewPath, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, pg_file_create_mode);
	if (file < 0)
		return false;
	bool written = write(file, &content, sizeof(content)) == sizeof(content);
	(void) close(file);
	if (!written)
		return false;
	return durable ? durable_rename(kNewPath, kPath, LOG) == 0 : rename(kNewPath, kPath) == 0;
}

/* ---- the postmaster ---- */

static constinit HandlerSuspects suspects = {};

/*
 * Read the notes of the last postmaster. Calls in the file were in progress when all processes
 * ended at once. Returns whether that postmaster ended without a note of its end.
 */
static bool
recall_last_server()
{
	static constinit CrashFile content = {};
	if (!read_crash_file(&content))
		return false;
	int64 now = monotonic_now();
	suspects = content.suspects;
	suspects.move_times(now - content.monotonic - (wall_now() - content.wall));
	if (content.noted)
		return false;
	suspects.begin_end();
	for (const CallNote &note : content.calls)
		if (note.in_call)
			suspects.suspect_weakly(note.call, note.soon, now);
	return true;
}

bool
keeps_crash_notes()
{
	return IsPostmasterEnvironment && max_handler_workers > 0;
}

bool
recall_crashes(CrashSuspect (&copies)[kCrashSuspects])
{
	static constinit bool recalled = false;
	bool careful = false;
	if (!keeps_crash_notes())
		return false;
	if (!recalled)
		careful = recall_last_server();
	recalled = true;
	if (careful)
		ereport(LOG, (errmsg("the server may have crashed during the call of a handler"),
					  errdetail("The last postmaster has left no note of its end. For %d min one "
								"handler's worker runs at a time, and each call has one job.",
								static_cast<int>(HandlerSuspects::kSoon / USECS_PER_MINUTE))));
	int n = 0;
	suspects.for_each_fresh([&](const HandlerCall &call, int crashes) {
		copies[n++] = {call, crashes};
	});
	/* The suspects are in `copies` now, and must not be reported again. */
	suspects.begin_end();
	if (!write_crash_file(suspects, false, true))
		ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", kPath),
					  errdetail("If all processes end at once, the next start of the server does "
								"not know which calls of handlers were in progress.")));
	return careful;
}

void
begin_end_notes()
{
	suspects.begin_end();
}

void
suspect_call(const HandlerCall &call, bool weak, bool soon)
{
	int64 now = monotonic_now();
	if (weak)
		suspects.suspect_weakly(call, soon, now);
	else
		suspects.suspect(call, now);
}

void
finish_end_notes()
{
	(void) write_crash_file(suspects, true, false);
}

/* ---- a worker ---- */

static constinit int notes_file = -1;
static constinit bool is_noted = false;

static bool
write_note(int slot, const CallNote &note)
{
	off_t place = offsetof(CrashFile, calls) + slot * sizeof(CallNote);
	return pwrite(notes_file, &note, sizeof(note), place) == sizeof(note);
}

void
note_call_begin(int slot, const HandlerCall &call, bool soon, bool durable)
{
	if (notes_file < 0)
		notes_file = open(kPath, O_WRONLY | O_CLOEXEC);
	if (notes_file < 0)
		return;
	is_noted = write_note(slot, {call, 1, soon});
	if (is_noted && durable)
		(void) pg_fdatasync(notes_file);
}

void
note_call_end(int slot)
{
	if (is_noted)
		(void) write_note(slot, {});
	is_noted = false;
}

} // namespace pgq
