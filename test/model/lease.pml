/*
 * Model of the life of a lease: claim, commit and rollback of the claim, ack, fail, release, assert, expiry; the
 * scheduler's count of lost attempts, and its death; a second session with the same token; a crash and late acks,
 * also with numbers that are no token of the job; a change of the job by SQL; a cancel and a finish by the id, of
 * which the worker may be told before they are undone.
 *
 * Time stands still, which is the worst case for tokens: they grow only when a job comes back (pass_prefix), at a cut
 * (cut_tokens), and at a start.
 */
#ifndef JOBS
#define JOBS 1
#endif
#ifndef MAX_ATTEMPTS
#define MAX_ATTEMPTS 2
#endif
#define TIMES (MAX_ATTEMPTS + 2)
#define WINDOW_SIZE 1
#define TIMER_SIZE 1
#define NOW (TIMES - 1)
#define RUN_AT(attempts) (1 + (attempts))
#include "engine.pml"

byte boot;
#include "refill.pml"

/* columns of the row that only the end of an attempt writes; committed together with it */
byte attempts[JOBS], fence[JOBS];

byte pins[JOBS], ender[JOBS], claiming[JOBS]; /* ender and claiming: the transactions that end and claim */
byte revoked[JOBS]; /* number of cancels and finishes that are under way */
bool told[JOBS], doomed[JOBS];
byte token[JOBS], last_token, token_base; /* prefixes */
bool drawn;								/* there are tokens with the prefix last_token */
bool handed[JOBS];						/* the lease is CLAIMED, or was */

/* ghosts */
bool acked, ended[JOBS]; /* acked, finished, cancelled or dead, visibly; acked: while it was handed out */
bool cancelled;			 /* cancelled while it was handed out */
byte released;			 /* number of releases */
bool given_back_by[16];	 /* by token: the job was released with it */
byte handed_out;		 /* number of hand-outs; also the number of the last hand-out, which no fault can repeat */
byte shown;				 /* a token that another session has learned */
bool of_job[16];		 /* by token: its check bits are right for the job */
byte content;			 /* number of the job's present content */
byte content_of[16];	 /* by token: the content that its worker was given */

/*
 * take_lease() draws a token before the row is read. A token that no process has seen yet matters to none, so here it
 * is drawn when the row is read.
 */
inline draw_token(j)
{
	assert(last_token < 16);
	token[j] = last_token;
	content_of[last_token] = content;
	drawn = true
}

inline hand_out(j, me)
{
	d_step {
		assert(lease_state[j] == CLAIMING && claiming[j] == me && !ended[j]);
		lease_state[j] = CLAIMED;
		pins[j] = 1;
		handed[j] = true;
		mine_token = token[j];
		shown = token[j];
		of_job[token[j]] = true;
		handed_out++;
		mine_hand_out = handed_out
	}
}

/* pass_prefix, cut_tokens */
inline pass(t)
{
	if
	:: t == last_token && drawn -> last_token++; drawn = false
	:: else
	fi
}

/* Part of end_lease(): the next worker of the job gets a greater token. An ack need not ensure that, but may. */
inline forget_lease(j)
{
	if
#ifndef FAULT_GROWTH_PER_JOB
	:: handed[j] -> pass(token[j])
#endif
	:: else
	fi;
	handed[j] = false;
	token[j] = 0; pins[j] = 0; ender[j] = 0; claiming[j] = 0; revoked[j] = 0; told[j] = false; doomed[j] = false
}

inline lose_lease(j)
{
	assert(lease_state[j] == CLAIMED || lease_state[j] == REAPING);
	lease_state[j] = LOST;
	pins[j] = 0; ender[j] = 0; claiming[j] = 0; doomed[j] = false
}

/* One use of the lease, or the claim, is over: QueueHold::unpin. */
inline unpin(j)
{
	assert(pins[j] > 0);
	pins[j]--;
	if
	:: doomed[j] && pins[j] == 0 -> lose_lease(j)
	:: else
	fi
}

/* The claim is undone: lose_claimed. */
inline lose_claimed(j)
{
	claiming[j] = 0;
#ifdef FAULT_LOSE_USED
	lose_lease(j)
#else
	doomed[j] = true;
	unpin(j)
#endif
}

#define is_lease_of(j, t) (lease_state[j] == CLAIMED && token[j] == (t) && !doomed[j])

/*
 * gripped: set if the token is current and no other transaction uses the lease; waits for a transaction that uses it
 */
inline take_in_hand(j, t, me)
{
	if
#ifdef FAULT_UNFENCED
	:: d_step { lease_state[j] == CLAIMED && ender[j] == 0 && (claiming[j] == 0 || claiming[j] == me) ->
#else
	:: d_step { is_lease_of(j, t) && ender[j] == 0 && (claiming[j] == 0 || claiming[j] == me) ->
#endif
			pins[j]++; ender[j] = me; gripped = true }
	:: d_step { !is_lease_of(j, t) -> gripped = false }
	fi
}

/* Write the row of a failed attempt: rewritten or deleted (end_failed_attempt). */
inline end_failed_attempt(j, me)
{
	if
	:: attempts[j] + 1 == MAX_ATTEMPTS -> write_row(j, me, 0)
	:: else -> write_row(j, me, KEY(0, RUN_AT(attempts[j] + 1), j))
	fi
}

inline failed_visible(j, t)
{
	d_step {
		assert(live(j) && !ended[j]);
		ended[j] = next_row[j] == 0;
		row[j] = next_row[j];
		next_row[j] = 0; writer[j] = 0; filed[j] = false;
		attempts[j]++;
		fence[j] = t
	}
}

/* file_hints */
inline file_retry(j)
{
	d_step {
		if
		:: live(j) && !filed[j] -> fire(NOW); file(KEY(0, RUN_AT(attempts[j]), j)); filed[j] = true
		:: else
		fi;
		check()
	}
}

/*
 * pgq_release: the job waits again at its place, and no attempt is counted. The token is written to the row as its
 * fence.
 */
inline release(j, t, hand_out_of_t, me)
{
	d_step { live(j) && writer[j] == 0 -> write_row(j, me, row[j]) };
	if
	:: /* commit */
		d_step {
			assert(lease_state[j] == CLAIMED && handed_out == hand_out_of_t && !ended[j]);
			row[j] = next_row[j]; next_row[j] = 0; writer[j] = 0; filed[j] = false;
#ifndef FAULT_RELEASE_UNFENCED
			fence[j] = t;
#endif
			given_back_by[t] = true;
			released++
		};
		d_step { end_lease(j); forget_lease(j); check() };
		file_retry(j)
	:: /* rollback */
		d_step { row_undone(j) };
		d_step { ender[j] = 0; unpin(j); check() }
	fi
}

/* The transaction of a worker that acks with token t; me is its xid. */
inline ack(j, t, hand_out_of_t, me)
{
	take_in_hand(j, t, me);
	if
	:: gripped ->
		if
		:: d_step { live(j) && writer[j] == 0 -> write_row(j, me, 0) };
			if
			:: /* commit */
				d_step {
					assert(lease_state[j] == CLAIMED && handed_out == hand_out_of_t && !ended[j]);
					ended[j] = true; acked = true;
					row[j] = 0; writer[j] = 0
				};
				d_step { end_lease(j); forget_lease(j); check() }
			:: /* rollback */
				d_step { row_undone(j) };
				d_step { ender[j] = 0; unpin(j); check() };
				gripped = false
			fi
		/* the row is gone: LeaseEnd::kUncounted */
		:: d_step { !live(j) && writer[j] == 0 -> end_lease(j); forget_lease(j) }
		fi
	:: !gripped
	fi
}

inline give_back_late(j)
{
#ifdef FAULT_LATE_ACK_WITHOUT_LEASE
	skip
#else
	d_step { forget_lease(j); give_back(j); check() }
#endif
}

/* is_proven */
#ifdef FAULT_LATE_ACK_UNCHECKED
#define proven(t) true
#else
#define proven(t) of_job[t]
#endif

/* ack_late, with a token from before the start */
inline ack_late(j, t, me)
{
	if
	:: d_step { t < token_base && proven(t) && live(j) && writer[j] == 0 && fence[j] < t && lease_state[j] == NONE ->
#ifndef FAULT_LATE_ACK_WITHOUT_LEASE
			hint = row[j];
			take_lease(j);
			pins[j] = 2; ender[j] = me; claiming[j] = me;
#endif
			gripped = true
		};
		/* the row is read again */
		if
		:: d_step { live(j) && writer[j] == 0 && fence[j] < t -> write_row(j, me, 0) };
			if
			:: d_step {
					assert(!ended[j] && of_job[t] && content_of[t] == content && !given_back_by[t]);
					ended[j] = true; acked = true; row[j] = 0; writer[j] = 0
				};
#ifndef FAULT_LATE_ACK_WITHOUT_LEASE
				d_step { end_lease(j); forget_lease(j); check() }
#endif
			:: d_step { row_undone(j) };
				give_back_late(j)
			fi
		:: writer[j] == 0 && (!live(j) || fence[j] >= t) -> give_back_late(j)
		fi
	:: else
	fi
}

proctype worker(byte me)
{
	byte mine, key, verdict, seen, mine_token, mine_hand_out;
	bool gripped;
restart:
	atomic { mine = boot; key = 0; verdict = 0; seen = 0; gripped = false };
	{
end:	do
		:: pop_chunk(key);
			if
			:: key == 0
			:: key != 0 ->
				d_step { claiming[job_of(key)] = me; draw_token(job_of(key)); verify_job_now(key, verdict, seen) };
				if
				:: !fits(key, verdict, seen) ->
					d_step { forget_lease(job_of(key)) };
					settle_unfit(key, verdict, seen)
				:: fits(key, verdict, seen) ->
					d_step { forget_lease(job_of(key)); give_back(job_of(key)); key = 0; verdict = 0; seen = 0; check() }
				:: fits(key, verdict, seen) ->
					hand_out(job_of(key), me);
					d_step { verdict = 0; seen = 0 };
					if
					/* the claim is rolled back, unless another transaction has ended the lease in between */
					:: d_step {
							if
							:: lease_state[job_of(key)] == CLAIMED && claiming[job_of(key)] == me -> lose_claimed(job_of(key))
							:: else
							fi;
							key = 0; mine_token = 0; mine_hand_out = 0; check()
						}
					/* the claim is committed: the lease ends by time */
					:: d_step {
							if
							:: lease_state[job_of(key)] == CLAIMED && claiming[job_of(key)] == me ->
								claiming[job_of(key)] = 0;
								unpin(job_of(key))
							:: else
							fi;
							key = 0; check()
						}
					/* acked in the same transaction, which may roll back as a whole */
					:: take_in_hand(job_of(key), mine_token, me);
						if
						:: !gripped -> /* cancelled */
							d_step { key = 0; mine_token = 0; mine_hand_out = 0 };
							goto restart
						:: gripped
						fi;
						d_step { writer[job_of(key)] == 0 -> write_row(job_of(key), me, 0) };
						if
						:: d_step { assert(!ended[job_of(key)]); ended[job_of(key)] = true; acked = true;
								row[job_of(key)] = 0; writer[job_of(key)] = 0 };
							d_step { end_lease(job_of(key)); forget_lease(job_of(key)); key = 0; mine_token = 0; mine_hand_out = 0; gripped = false }
						:: d_step { row_undone(job_of(key)) };
							d_step { ender[job_of(key)] = 0; unpin(job_of(key)); lose_claimed(job_of(key)); key = 0; mine_token = 0; mine_hand_out = 0; gripped = false; check() }
						fi
					fi
				fi
			fi
		:: mine_token != 0 -> /* another transaction */
			ack(0, mine_token, mine_hand_out, me);
			if
			:: !gripped && lease_state[0] == NONE && token_base != 0 -> ack_late(0, mine_token, me)
			:: else
			fi;
			d_step { mine_token = 0; mine_hand_out = 0; gripped = false }
#if defined(CANCEL) || defined(FINISH)
		/* pgq_extend tells the worker to stop */
		:: d_step { mine_token != 0 && is_lease_of(0, mine_token) && revoked[0] > 0 ->
				told[0] = true; mine_token = 0; mine_hand_out = 0 }
#endif
#ifdef RELEASE
		:: mine_token != 0 && released < RELEASE ->
			take_in_hand(0, mine_token, me);
			if
			:: gripped -> release(0, mine_token, mine_hand_out, me)
			:: !gripped
			fi;
			gripped = false;
			if
			:: d_step { mine_token = 0; mine_hand_out = 0 }
			:: true /* the worker has forgotten that */
			fi
#endif
#ifdef ASSERT
		/* pgq_assert_lease: the transaction commits only while the lease is current, whatever else it does */
		:: mine_token != 0 ->
			take_in_hand(0, mine_token, me);
			if
			:: gripped ->
#ifdef FAULT_ASSERT_ONLY_LOOKS
				d_step { ender[0] = 0; unpin(0) };
				assert(is_lease_of(0, mine_token))
#else
				d_step {
					assert(is_lease_of(0, mine_token) && handed_out == mine_hand_out && !ended[0]);
					ender[0] = 0; unpin(0); check()
				}
#endif
			:: !gripped -> d_step { mine_token = 0; mine_hand_out = 0 }
			fi;
			gripped = false
#endif
		:: mine_token != 0 ->
			take_in_hand(0, mine_token, me);
			if
			:: gripped ->
				d_step { live(0) && writer[0] == 0 -> end_failed_attempt(0, me) };
				assert(handed_out == mine_hand_out);
				failed_visible(0, mine_token);
				d_step { end_lease(0); forget_lease(0); check() };
				file_retry(0)
			:: !gripped
			fi;
			d_step { mine_token = 0; mine_hand_out = 0; gripped = false }
		od
	} unless { boot != mine -> goto restart }
}

/* Another session that has learned a token. */
proctype twin(byte me)
{
	byte mine = boot, mine_token, mine_hand_out;
	bool gripped;
	{
		if
		:: d_step { shown != 0 -> mine_token = shown; mine_hand_out = handed_out };
			ack(0, mine_token, mine_hand_out, me)
		:: true
		fi
	} unless { boot != mine }
}

/* A session that acknowledges with another job's lease, or with any number. */
proctype guesser(byte me)
{
	byte mine, t;
	bool gripped;
	boot > 0;
	mine = boot;
	{
		t = 1;
		do
		:: t + 1 < token_base -> t++
		:: break
		od;
		if
		:: lease_state[0] == NONE -> ack_late(0, t, me)
		:: else
		fi
	} unless { boot != mine }
}

/*
 * A statement changes the job by SQL (see the trigger job_fence). It locks the row, and raises the fence at that
 * moment.
 */
proctype editor(byte me)
{
	byte cut;
	bool rewritten;
	if
	:: d_step { live(0) && writer[0] == 0 && !ended[0] ->
			write_row(0, me, row[0]);
			pass(last_token);
			cut = last_token - 1
		};
		if
		:: d_step {
				if
				:: writer[0] == me ->
					row[0] = next_row[0]; next_row[0] = 0; writer[0] = 0;
					content++;
#ifndef FAULT_CHANGE_UNFENCED
					fence[0] = cut
#endif
				:: else /* a crash has undone it */
				fi
			}
		:: d_step {
				if
				:: writer[0] == me -> row_undone(0)
				:: else
				fi
			}
		fi
	:: true
	fi
}

/* The end of a cancel that has taken the lease. */
inline end_by_id(me, finishes)
{
	if
	:: d_step { live(0) && writer[0] == 0 -> write_row(0, me, 0) };
		if
		:: d_step {
				assert(lease_state[0] == CLAIMED || lease_state[0] == CLAIMING);
				assert(!ended[0]);
				ended[0] = true; row[0] = 0; writer[0] = 0;
				/* if the lease was taken over as lost, its attempt is counted too */
				if
				:: finishes -> acked = handed[0]
				:: !finishes -> cancelled = handed[0]
				fi
			};
			d_step { end_lease(0); forget_lease(0); check() }
		:: d_step { row_undone(0) };
			d_step {
				ender[0] = 0;
				if
				:: lease_state[0] == CLAIMING -> forget_lease(0); give_back(0)
				:: else ->
					doomed[0] = doomed[0] || told[0];
					if
					:: revoked[0] > 0 -> revoked[0]--
					:: else
					fi;
					unpin(0)
				fi;
				check()
			}
		fi
	:: d_step { !live(0) && writer[0] == 0 -> end_lease(0); forget_lease(0); check() }
	fi
}

/* pgq_cancel, or pgq_finish, of a job that waits, is lost, or is leased. */
proctype ender_by_id(byte me; bool finishes)
{
	byte mine = boot, theirs;
	{
		if
		:: d_step { lease_state[0] == NONE && live(0) && writer[0] == 0 ->
				hint = row[0];
				take_lease(0);
				pins[0] = 2; ender[0] = me; claiming[0] = me
			};
			end_by_id(me, finishes)
		:: d_step { lease_state[0] == LOST -> lease_state[0] = CLAIMED; doomed[0] = true; pins[0] = 1; ender[0] = me };
			end_by_id(me, finishes)
		:: d_step { lease_state[0] == CLAIMED && !doomed[0] -> revoked[0]++; theirs = token[0] };
			if
#ifdef FAULT_FINISH_USED
			:: d_step { finishes && lease_state[0] == CLAIMED && token[0] == theirs && !doomed[0] -> ender[0] = me; pins[0]++ };
				end_by_id(me, finishes)
#endif
			:: d_step { lease_state[0] == CLAIMED && token[0] == theirs && !doomed[0] && ender[0] == 0 -> ender[0] = me; pins[0]++ };
				end_by_id(me, finishes)
			/*
			 * the transaction that it has waited for has ended the lease, or the lease is lost: look again, or give
			 * up
			 */
			:: d_step { lease_state[0] != CLAIMED || token[0] != theirs || doomed[0] ->
					if
					:: token[0] == theirs && revoked[0] > 0 -> revoked[0]--
					:: else
					fi
				}
			fi
		:: ended[0]
		fi
	} unless { boot != mine }
}

proctype clock()
{
end:
	do
	/* expire_due */
#ifdef FAULT_EXPIRE_PINNED
	:: d_step { lease_state[0] == CLAIMED -> lose_lease(0); check() }
#else
	:: d_step { lease_state[0] == CLAIMED && pins[0] == 0 -> lose_lease(0); check() }
#endif
	:: d_step { lease_state[0] == PARKED -> give_back(0); check() }
	od
}

/* The scheduler's duty for lost leases. If its transaction ends in any way, the next scheduler goes on. */
proctype scheduler(byte me)
{
	byte mine, t;
restart:
	atomic { mine = boot; t = 0 };
	{
end:	do
		:: d_step { lease_state[0] == LOST -> lease_state[0] = REAPING; pins[0] = 1; t = token[0] };
			if
			/* the row is busy, or the scheduler has not tried (kLostBusy, kStillLost), or it dies */
			:: d_step { lose_lease(0); t = 0; check() }
			:: d_step { live(0) && writer[0] == 0 -> end_failed_attempt(0, me) };
				if
				:: d_step { row_undone(0) };
					d_step { lose_lease(0); t = 0; check() }
				:: failed_visible(0, t);
					d_step { end_lease(0); forget_lease(0); t = 0; check() };
					file_retry(0)
				fi
			:: d_step { !live(0) && writer[0] == 0 -> end_lease(0); forget_lease(0); t = 0; check() }
			fi
		od
	} unless { boot != mine -> goto restart }
}

proctype crash()
{
	d_step {
		crash_now();
		forget_lease(0);
		/* begin_prefixes */
		pass(last_token);
#ifdef FAULT_TOKENS_REPEAT
		last_token = 1;
#endif
		token_base = last_token
	}
}

/*
 * Check at the end: each hand-out has ended exactly once, and each lost attempt was counted
 * (protocol: returned-is-counted), unless there was a crash.
 */
proctype accountant()
{
	timeout ->
	assert(!live(0) && ended[0] && lease_state[0] == NONE && (boot > 0 || handed_out == attempts[0] + acked + cancelled + released))
}

init
{
	atomic {
		reset();
		row[0] = KEY(0, RUN_AT(0), 0);
		filed[0] = true;
		enqueued_at[0] = RUN_AT(0);
		last_token = 1;
		run worker(1);
		run worker(2);
#ifdef TWIN
		run twin(3);
#endif
#ifdef CANCEL
		run ender_by_id(7, false);
#endif
#ifdef FINISH
		run ender_by_id(8, true);
#endif
#ifdef GUESS
		run guesser(5);
#endif
#ifdef EDIT
		run editor(6);
#endif
		run clock();
		run scheduler(4);
		run refill_window();
#ifdef CRASH
		run crash();
#endif
		run accountant()
	}
}
