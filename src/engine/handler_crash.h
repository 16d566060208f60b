/*
 * Notes about the calls of handlers that may have crashed the server. The notes survive the crash.
 *
 * A worker notes in its slot (handler_slot.h) which call it is in, and that it has got SIGQUIT. When
 * all processes have ended, the postmaster reads the slots, and keeps the suspects in its own
 * memory. But the postmaster may end as well. So everything is also in a file:
 *
 *   - the suspects, and whether the postmaster has noted the end. The postmaster writes both at each
 *     start and at each end. A postmaster that has not noted the end was killed with its processes;
 *   - the call of each worker. The worker writes to the file when the call begins and ends. If the
 *     worker is killed, the kernel still has the written data.
 *
 * The file is in pg_stat_tmp, which pg_basebackup and pg_rewind leave out: the notes are about the
 * processes of this server. An error of the file loses notes, and has no other effect.
 *
 * If the last server has ended without a note, handlers are careful for 5 minutes: one worker of
 * the whole server runs, each call has one job, and the note of a call is on disk before the call
 * begins. Then a call that brings the whole machine down is known, and no other call is suspected
 * in its place.
 */
#pragma once

#include "core/handler_suspects.h"
#include "engine/shared.h"

namespace pgq {

/*
 * Return whether this server keeps notes. A server for a single user runs no handler, and leaves the
 * file to the next postmaster.
 */
bool keeps_crash_notes();

/*
 * For the postmaster, when shared memory has been created: copy the suspects of the last end of
 * the server. Returns whether handlers have to be careful.
 */
bool recall_crashes(CrashSuspect (&suspects)[kCrashSuspects]);

/*
 * For the postmaster, when all processes have ended: first begin_end_notes(), then suspect_call() for
 * each suspect, then finish_end_notes(). weak: the suspicion is weak. soon: the call had begun soon
 * after the start of the server (HandlerSuspects::kSoon).
 */
void begin_end_notes();
void suspect_call(const HandlerCall &call, bool weak, bool soon);
void finish_end_notes();

/*
 * For a worker: note in the file that a call begins or ends in its slot. soon: the call begins soon
 * after the start of the server. durable: wait until the note is on disk. If the file cannot be
 * written, the note is lost, and no error is raised.
 */
void note_call_begin(int slot, const HandlerCall &call, bool soon, bool durable);
void note_call_end(int slot);

} // namespace pgq
