/*
 * Model of the lease quota of a database (engine/lease_quota.cpp): its own share and a common part. Shown: no database
 * below its share is ever refused; no process is refused because another one is about to fail; and there are never
 * more leases than entries in the table.
 */
#define DATABASES 2
#define OWN 1
#ifndef COMMON
#define COMMON 1
#endif
#define ENTRIES (DATABASES * OWN + COMMON)
#ifndef WORKERS
#define WORKERS 4 /* their databases alternate */
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

byte used[DATABASES], aside[DATABASES], aside_own[DATABASES];
byte common;
byte held[DATABASES]; /* number of leases, set aside or not */
byte ended;

inline charge_common()
{
#ifdef FAULT_CHECK_THEN_ADD
	got = common < COMMON;
	if
	:: got -> common++
	:: else
	fi
#else
	/* compare and exchange, repeated until it succeeds, or the common part is full */
	d_step { got = common < COMMON; common = common + got }
#endif
}

inline take()
{
	d_step { held[d]++; assert(held[0] + held[1] <= ENTRIES) }
}

inline charge_lease()
{
	charged = false;
#ifdef FAULT_ADD_THEN_CHECK
	d_step { used[d]++; from_common = used[d] > OWN };
	if
	:: from_common ->
		charge_common();
		if
		:: got -> charged = true; take()
		:: else -> d_step { assert(held[d] >= OWN); used[d]-- }
		fi
	:: else -> charged = true; take()
	fi
#else
	seen = used[d];
	do
	:: true ->
		from_common = seen >= OWN;
		got = true;
		if
		:: from_common -> charge_common()
		:: else
		fi;
		if
		:: !got ->
#ifndef FAULT_LOOK_ONCE
			d_step { seen = used[d]; assert(seen < OWN || held[d] >= OWN) };
#else
			assert(held[d] >= OWN);
#endif
			if
			:: seen >= OWN -> break
			:: else
			fi
		:: else ->
			d_step {
				charged = used[d] == seen;
				used[d] = used[d] + charged;
				if
				:: charged -> held[d]++; assert(held[0] + held[1] <= ENTRIES)
				:: else
				fi;
				got = charged;
				seen = used[d]
			};
			if
			:: got -> break
			:: !got && from_common -> common--
			:: else
			fi
		fi
	od
#endif
}

/* gone: the lease itself has ended, too */
inline discharge_lease(gone)
{
	d_step { from_common = used[d] > OWN; used[d]--; held[d] = held[d] - gone };
	if
	:: from_common -> common--
	:: else
	fi
}

/* got: set if the lease is now charged to the common part. */
inline charge_aside()
{
	seen = used[d];
	got = false;
	do
	:: seen > OWN && !got ->
		d_step { got = used[d] == seen; used[d] = used[d] - got; seen = used[d] }
	:: else -> break
	od;
	if
	:: got
	:: else ->
		charge_common();
		if
#ifdef FAULT_ASIDE_FORGETS
		:: got -> d_step { used[d]-- }
#else
		:: got -> discharge_lease(0); got = true
#endif
		:: else
		fi
	fi;
	d_step { aside[d] = aside[d] + got; aside_own[d] = aside_own[d] + (1 - got) }
}

proctype worker(byte d)
{
	byte seen, round;
	bool got, charged, from_common;
	do
	:: round < ROUNDS ->
		round++;
		charge_lease();
		if
		:: !charged
		:: charged ->
			discharge_lease(1)
		:: charged ->
			charge_aside();
			d_step { aside[d] = aside[d] - got; aside_own[d] = aside_own[d] - (1 - got) };
			if
			:: got -> d_step { held[d]--; common-- }
			:: else -> discharge_lease(1)
			fi
		fi
	:: else -> break
	od;
	skip;
	d_step {
		ended++;
		if
		:: ended == WORKERS -> assert(common == 0 && used[0] == 0 && used[1] == 0)
		:: else
		fi
	}
}

init
{
	byte i;
	atomic {
		do
		:: i < WORKERS -> run worker(i % DATABASES); i++
		:: else -> break
		od
	}
}
