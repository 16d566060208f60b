/*
 * Model of leases that are saved at a clean shutdown and restored at the start. One job is claimed and finished again
 * and again. One session advances the token mark. A scheduler saves leases at any time, since a session may end after
 * it. The server stops or crashes at any step.
 */
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef TOKENS
#define TOKENS 5 /* and marks */
#endif
#define greatest(a, b) ((a) > (b) -> (a) : (b))

/* shared memory */
bool up = true;
byte boot;
byte last, marked = 2; /* shared->last_prefix, Database::marked_token */
byte lease;			   /* the token of the job's lease, 0: none */
bool mark_lock;		   /* ShareUpdateExclusiveLock on the sequence */

/* durable */
byte token_mark = 2;
byte saved_mark, saved_lease;
bool live = true;
byte fence;

/* ghosts */
byte newest; /* the last token handed out */
byte ended;	 /* the last token whose end was written */

/* A claim, in one hold: the mark is compared, and take_lease() draws a token. */
proctype claimer()
{
end:	do
	:: d_step {
			up && live && lease == 0 && last < marked && last < TOKENS ->
			last++;
			assert(last > newest);
			newest = last;
			lease = last
		}
	od
}

/* Acks, failures and losses, also by sessions that the stop has not reached yet. */
proctype worker()
{
end:	do
	/* the transaction becomes visible, then its callback runs */
	:: d_step { up && lease != 0 && ended != lease -> ended = lease; live = false }
	:: d_step { up && lease != 0 && ended != lease -> ended = lease; fence = lease }
	:: d_step { up && lease != 0 && ended == lease -> lease = 0 }
	/* given back uncounted, so nothing is written */
	:: d_step { up && lease != 0 && ended != lease -> lease = 0 }
	od
}

#ifdef FAULT_MARK_UNLOCKED
#define free_for_saver true
#else
#define free_for_saver !mark_lock
#endif

/* advance_token_mark */
proctype advancer()
{
	byte mine, mark;
restart:
	atomic { mine = boot; mark = 0 };
	{
end:	do
		:: atomic { up && !mark_lock && last >= marked && token_mark < TOKENS -> mark_lock = true };
			if
#ifdef FAULT_UNPUBLISHED_REUSED
			:: mark > last
#endif
			:: d_step {
					true ->
					mark = last + 1;
#ifdef FAULT_MARK_NOT_RAISED
					token_mark = greatest(token_mark, mark)
#else
					token_mark = greatest(token_mark + 1, mark)
#endif
				}
			fi;
			if
			:: d_step { true -> marked = mark; mark_lock = false }
			:: mark_lock = false /* cancelled during the wait for the standby */
			fi
		od
	} unless { boot != mine -> goto restart }
}

/* save_leases_at_exit */
proctype scheduler()
{
	byte mine, mark, copy;
restart:
	atomic { mine = boot; mark = 0; copy = 0 };
	{
end:	do
		:: atomic {
				up && free_for_saver ->
#ifndef FAULT_MARK_UNLOCKED
				mark_lock = true
#endif
			};
#ifndef FAULT_MARK_NOT_CLOSED
			marked = 0;
#endif
			mark = token_mark;
			copy = lease;
			d_step { saved_mark = mark; saved_lease = copy; mark = 0; copy = 0 };
#ifndef FAULT_MARK_UNLOCKED
			mark_lock = false
#endif
		od
	} unless { boot != mine -> goto restart }
}

#ifdef FAULT_MARK_NOT_COMPARED
#define is_current true
#else
#define is_current (saved_mark == token_mark)
#endif
#ifdef FAULT_FENCE_NOT_ASKED
#define is_unended true
#else
#define is_unended (live && fence < saved_lease)
#endif

/* A stop, a crash, a failover, or a copy of the disk that is started; then attach(). */
proctype server()
{
end:	do
	:: d_step {
			up && boot < RESTARTS ->
			up = false; boot++;
			last = 0; marked = 0; lease = 0; mark_lock = false
		};
		d_step {
			last = token_mark; marked = token_mark;
			if
			:: saved_lease != 0 && is_current && is_unended ->
				lease = saved_lease;
				/* no worker has got the job since the save, and its worker has not finished */
				assert(lease == newest && lease != ended)
			:: else
			fi;
			up = true
		}
	od
}

init
{
	atomic {
		run claimer();
		run worker();
		run advancer();
		run scheduler();
		run server()
	}
}
