/*
 * Model of the calls of a handler (handlers/call.cpp, worker/run_jobs.cpp): one job, two workers that claim it (T1),
 * call the handler and acknowledge (T2), and end a failed attempt (T3); a session that cancels the job, and commits or
 * rolls back at any time or never; the deadline of the lease; the scheduler, which counts lost attempts; deaths of
 * workers between any two steps. A transaction is one step at its commit.
 *
 * BATCH: the first call of a claim is one of several jobs. Its error counts for no job, and the worker goes on with the
 * job; a cancel of the job interrupts the call. Only the death of its worker, or the deadline, counts.
 * ANSWERS: the handler may end its own job before the ack.
 * USES: the handler may use the lease, for example to report progress. Then a cancel waits for the call.
 * CRASH: the server crashes, once, and all memory is lost.
 *
 * Shown: the work is committed at most once, and never beside a cancel. Each attempt is counted at most once, and only
 * if a call of the job alone has begun. A lease belongs to a worker that is there, unless the lease is lost or a cancel
 * is open. A worker waits for a cancel in a call only, where its timeout ends the wait. No call goes on after a cancel
 * has committed, unless the call has got the signal.
 */
#ifndef TOKENS
#define TOKENS 2
#endif
#define WORKERS 2
#define NOBODY 255

/* the row */
#define LIVE 0
#define ACKED 1
#define CANCELLED 2
byte row = LIVE;

/* the lease */
#define NONE 0
#define CLAIMED 1
#define LOST 2
byte lease = NONE, token;
bool begun;		   /* a call of the job has begun, and was not undone for another reason than this job */
bool together;	   /* the last call had more jobs */
bool doomed;	   /* LOST as soon as the cancel is undone */
bool told;		   /* a worker has stopped because of the cancel, which is still open */
byte user = NOBODY; /* the worker whose open T2 uses the lease */

/* the cancel */
bool revoked;		/* the lease is revoked */
bool in_hand;		/* the cancel has the lease in hand, and no other transaction can use it */
bool committing;	/* between the look for the call and the end of the lease */
byte called[WORKERS]; /* the token in the worker's slot; 0: in no call */
bool signalled[WORKERS];

/* ghosts */
byte work;
bool counted[TOKENS + 1], disclosed[TOKENS + 1], blamed[TOKENS + 1];
byte holder = NOBODY; /* the worker that has the lease */
byte boot;		/* number of crashes */
byte cancelled; /* the token of the lease that the cancel has ended */

inline count(t)
{
	assert(!counted[t]);
	assert(disclosed[t]);
	assert(blamed[t]);
	counted[t] = true
}

inline end_lease()
{
	lease = NONE; begun = false; together = false; doomed = false; told = false; user = NOBODY; holder = NOBODY
}

#define mine (lease == CLAIMED && token == my_token && !doomed && my_boot == boot)

/* lose_session_lease(): a lease that the cancel has in hand is lost when the cancel is undone. */
inline lose()
{
	if
	:: in_hand -> doomed = true; holder = NOBODY
	:: !in_hand -> lease = LOST; holder = NOBODY; user = NOBODY
	fi
}

/* give_back_unbegun() */
inline give_back()
{
	if
#ifdef FAULT_UNBEGUN_IS_LOST
	:: mine && !in_hand -> lose()
#endif
	:: mine && !in_hand -> end_lease()
#ifdef FAULT_GIVEN_BACK_UNTOLD
	:: mine && in_hand -> holder = NOBODY
#else
	/* The cancel ends the lease. If the cancel is undone, the job is given back. */
	:: mine && in_hand -> told = true; holder = NOBODY
#endif
	:: else
	fi
}

proctype worker(byte me)
{
	byte my_token, my_boot;
	bool answered, used, retried;
end:
	do
	/* T1 */
	:: d_step {
			row == LIVE && lease == NONE && !revoked && token < TOKENS ->
			token++;
			my_token = token;
			my_boot = boot;
			lease = CLAIMED;
			holder = me;
			answered = false;
			used = false;
			retried = false
		};
#ifdef BATCH
		if
		:: true
			d_step { called[me] = my_token; signalled[me] = false };
			if
			:: d_step {
					mine && !revoked ->
					disclosed[my_token] = true;
					begun = true;
					together = true
				}
			:: d_step { !(mine && !revoked) -> called[me] = 0; give_back() };
				goto next
			fi;
#ifdef USES
			if
			:: d_step { mine && !in_hand -> user = me }
			:: true
			fi;
#endif
			assert(cancelled != my_token || committing || signalled[me] || my_boot != boot);
			if
			/* an error, or the signal of a cancel */
			:: d_step {
					called[me] = 0;
					if
					:: user == me -> user = NOBODY
					:: else
					fi
				}
			/* the process dies */
			:: d_step {
					called[me] = 0;
					blamed[my_token] = true;
					if
					:: user == me -> user = NOBODY
					:: else
					fi;
					if
					:: mine -> lose()
					:: else
					fi
				};
				goto next
			fi;
			/* stop_handled() */
			d_step {
				if
				:: mine && !revoked -> begun = false
				:: mine && revoked -> begun = false; give_back()
				:: else
				fi
			}
		:: true
		fi;
#endif
		if
		:: true
		/* gives the job back, or dies: the call has not begun */
		:: d_step { give_back() }; goto next
		fi;
call:	skip; /* try_call(): the token first, then a look */
		d_step { called[me] = my_token; signalled[me] = false };
#ifndef FAULT_NO_LOOK
		if
		:: d_step { mine && !revoked }
		:: d_step {
				!(mine && !revoked) ->
				called[me] = 0;
				/* The job is given back, also if a call was repeated because of a conflict. */
				begun = begun && !mine;
				give_back()
			};
			goto next
		fi;
#endif
		d_step {
			disclosed[my_token] = disclosed[my_token] || mine;
			blamed[my_token] = blamed[my_token] || mine;
			together = together && !mine;
			begun = begun || mine
		};
#ifdef USES
		if
		:: d_step { mine && !in_hand -> user = me; used = true }
		:: true
		fi;
#endif
#ifdef ANSWERS
		if
		:: d_step { mine && !in_hand -> user = me; used = true; answered = true }
		:: true
		fi;
#endif
		/* A cancel that has committed has either met the call, or was seen before it. */
		assert(cancelled != my_token || committing || signalled[me] || my_boot != boot);
		if
		/* the ack, if the call has not answered itself, and the commit */
		:: d_step {
				((answered && my_boot == boot) || (mine && !in_hand)) && !signalled[me] ->
				called[me] = 0;
				assert(lease == CLAIMED && token == my_token);
				assert(row == LIVE && work == 0);
				row = ACKED;
				work++;
				end_lease()
			};
			goto next
#ifdef FAULT_STALE_ACK
		:: d_step { !mine && row == LIVE -> called[me] = 0; row = ACKED; work++; end_lease() }; goto next
#endif
		/* stale: rolled back, and nothing is counted */
#ifdef FAULT_ACK_AFTER_ANSWER
		:: d_step { answered || !mine -> called[me] = 0; assert(!answered) };
#else
		:: d_step { !answered && !mine -> called[me] = 0 };
#endif
#ifdef FAULT_STALE_COUNTS
			d_step { count(my_token) };
#endif
			goto next
		/* an error, the timeout, or the signal of a cancel: T2 is rolled back */
		:: d_step {
				called[me] = 0;
				answered = false;
				if
				:: user == me -> user = NOBODY
				:: else
				fi
			}
		/* the process dies */
		:: d_step {
				called[me] = 0;
				if
				:: user == me -> user = NOBODY
				:: else
				fi;
				if
				:: mine -> lose()
				:: else
				fi
			};
			goto next
		fi;
		/* a conflict costs no attempt the first times */
		if
		:: !retried && !signalled[me] -> retried = true; used = false; goto call
		:: true
		fi;
		if
		/* The process dies before T3. */
		:: d_step {
				if
				:: mine -> lose()
				:: else
				fi
			};
			goto next
		:: true
		fi;
		/* T3: fail, or release uncounted */
		if
		:: d_step { mine && !revoked -> count(my_token); end_lease() }
		:: d_step { mine && !revoked -> end_lease() }
#ifdef FAULT_FAIL_WITHOUT_TOKEN
		:: d_step { !mine && lease != NONE -> count(my_token) }
#endif
		:: d_step { !mine }
#ifndef FAULT_FAILURE_WAITS_FOR_CANCEL
		/* The cancel ends the job. If it is undone, the lease is lost. */
		:: d_step { mine && revoked -> told = true; holder = NOBODY }
#endif
		fi;
next:	skip;
		d_step { called[me] = 0; my_token = 0; answered = false; used = false; retried = false }
	od
}

/* The worker of a call with more jobs does not leave the job to the cancel. It looks at the lease again. */
inline tell()
{
#ifdef FAULT_TOLD_WITH_OTHERS
	told = true
#else
	told = told || !together
#endif
}

/* pgq_cancel in a transaction that ends at any time, or never */
proctype canceller()
{
	bool commits;
	byte my_boot;
end:
	if
	:: true -> goto done
	:: d_step {
			row == LIVE ->
			my_boot = boot;
			revoked = true;
			if
			:: lease != CLAIMED || user == NOBODY -> in_hand = true
			:: else
			fi
		}
	fi;
	/* The call uses the lease: signal it, and wait for its end. */
	do
	:: in_hand || my_boot != boot -> break
	:: !in_hand && my_boot == boot ->
		d_step {
			if
			:: my_boot == boot && called[0] == token && user == 0 -> signalled[0] = true; tell()
			:: my_boot == boot && called[1] == token && user == 1 -> signalled[1] = true; tell()
			:: else
			fi
		};
		if
		:: d_step { my_boot == boot && (lease != CLAIMED || user == NOBODY) -> in_hand = true }
		:: d_step { my_boot == boot && row != LIVE -> revoked = false }; goto done
		:: my_boot != boot
		fi
	od;
	skip;
	d_step {
		if
		:: row != LIVE && my_boot == boot -> revoked = false; in_hand = false
		:: else
		fi
	};
	if
	:: !revoked || my_boot != boot -> goto done
	:: revoked && my_boot == boot
	fi;
	if
	:: true -> commits = true
	:: true
	/* The session leaves its transaction open for ever. */
	:: true ->
endopen:	false
	fi;
	if
	:: my_boot != boot
		/* The row is gone. interrupt_cancelled() looks for the call, then the lease ends. */
	:: d_step {
			commits && my_boot == boot ->
			assert(work == 0);
			row = CANCELLED;
			committing = true;
			if
			:: lease == CLAIMED -> cancelled = token
			:: else
			fi
		};
		d_step {
			if
			:: my_boot == boot && lease == CLAIMED && called[0] == token -> signalled[0] = true
			:: else
			fi;
			if
			:: my_boot == boot && lease == CLAIMED && called[1] == token -> signalled[1] = true
			:: else
			fi
		};
		d_step {
			if
			:: my_boot == boot -> end_lease(); revoked = false; in_hand = false
			:: else
			fi;
			committing = false
		}
	:: d_step {
			!commits && my_boot == boot ->
			revoked = false;
			in_hand = false;
#ifdef FAULT_UNDONE_CANCEL_FORGETS
			told = false;
#endif
			if
			/* undo_revocation() */
			:: lease == CLAIMED && (doomed || (told && begun)) -> lease = LOST; holder = NOBODY; user = NOBODY
			:: lease == CLAIMED && told && !begun && !doomed -> end_lease()
			:: else
			fi;
			told = false;
			doomed = false
		}
	fi;
done:
	skip
}

/* The deadline: expire_due(). A lease that a transaction uses does not expire. */
proctype clock()
{
end:
	do
	:: d_step {
			lease == CLAIMED && !in_hand && user == NOBODY && row == LIVE ->
#ifdef FAULT_UNBEGUN_EXPIRES
			lease = LOST; holder = NOBODY
#else
			if
			:: begun -> blamed[token] = true; lease = LOST; holder = NOBODY
			:: !begun -> end_lease()
			fi
#endif
		}
	od
}

/* The scheduler counts lost attempts. */
proctype scheduler()
{
end:
	do
	:: d_step { lease == LOST && row == LIVE && !in_hand -> count(token); end_lease() }
	od
}

#ifdef CRASH
/* All memory goes. Only if the worker in a call has crashed the server, its attempt is counted. */
proctype crash()
{
end:
	d_step {
		boot++;
		if
		:: lease == CLAIMED && row == LIVE && begun && called[0] == token -> count(token)
		:: lease == CLAIMED && row == LIVE && begun && called[1] == token -> count(token)
		:: true
		fi;
		end_lease();
		revoked = false;
		in_hand = false
	}
}
#endif

/* Check at the end: a job that no process has, and nobody waits for, is not leased. */
proctype monitor()
{
end:
	do
	:: d_step {
			lease == CLAIMED && !revoked && row == LIVE ->
			assert(holder != NOBODY)
		}
	od
}

init
{
	atomic {
		run worker(0);
		run worker(1);
		run canceller();
		run clock();
		run scheduler();
#ifdef CRASH
		run crash();
#endif
		run monitor()
	}
}
