/*
 * Model of concurrency slots (engine/concurrency.h): the slots of leases, and slots lent by a transaction that
 * acknowledges and claims. Shown: at most LIMIT jobs are in work at a time, as their workers see it. A job that was
 * acknowledged in an open transaction is not in work, unless that transaction is rolled back. At the end of a
 * transaction its leases are settled one by one, in any order, as those of a prepared transaction are.
 */
#ifndef JOBS
#define JOBS 3
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef UNDONE
#define UNDONE 2
#endif
#define NONE 255

byte running;
bool taken[JOBS], slot[JOBS], gone[JOBS];
byte lender[JOBS], borrower[JOBS]; /* number of the lease plus 1; 0: none */
bool work[JOBS]; /* in work, as other sessions see it */
byte left = JOBS;
byte undone; /* number of lost leases and rolled-back transactions */

inline check()
{
	n = 0;
	for (i : 0 .. JOBS - 1) {
		if
		:: work[i] -> n++
		:: else
		fi
	}
	assert(n <= LIMIT);
	n = 0
}

inline occupy(j)
{
	slot[j] = true;
	running++
}

inline free_slot(j)
{
#ifndef FAULT_CHAIN_BREAKS
	if
	:: borrower[j] != 0 -> lender[borrower[j] - 1] = lender[j]
	:: else
	fi;
	if
	:: lender[j] != 0 -> borrower[lender[j] - 1] = borrower[j]
	:: else
	fi;
#else
	if
	:: borrower[j] != 0 -> lender[borrower[j] - 1] = 0
	:: else
	fi;
#endif
	if
#ifndef FAULT_THROUGH_POOL
	:: slot[j] && lender[j] != 0 -> slot[lender[j] - 1] = true
	:: slot[j] && lender[j] == 0 -> running--
#else
	:: slot[j] -> running--
#endif
	:: !slot[j]
	fi;
	slot[j] = false;
	lender[j] = 0;
	borrower[j] = 0
}

inline end(j)
{
	free_slot(j);
	taken[j] = false
}

/*
 * Take the lease of any waiting job. from: a lease that may lend its slot, or NONE. j: the job; NONE if there is no
 * job or no slot.
 */
inline take(j, from)
{
	atomic {
		j = NONE;
		if
		:: running < LIMIT || (from != NONE && slot[from]) ->
			i = 0;
			do
			:: i < JOBS && !taken[i] && !gone[i] -> j = i; break
			:: i < JOBS -> i++
			:: i >= JOBS -> break
			od;
			if
			:: j != NONE ->
				taken[j] = true;
				work[j] = true;
				if
				:: running < LIMIT -> occupy(j)
				:: else ->
					slot[from] = false;
					borrower[from] = j + 1;
					slot[j] = true;
					lender[j] = from + 1
				fi;
				check()
			:: else
			fi;
			i = 0
		:: else
		fi
	}
}

inline acknowledge(j)
{
	atomic {
		work[j] = false;
#ifdef FAULT_FREE_AT_ACK
		slot[j] = false;
		running--
#endif
	}
}

/* The ack is undone: the job is in work again. */
inline put_back(j)
{
#ifdef FAULT_FREE_AT_ACK
	slot[j] = true;
	running++
#else
#ifdef FAULT_THROUGH_POOL
	if
	:: !slot[j] -> occupy(j)
	:: else
	fi
#else
	skip
#endif
#endif
}

/* A transaction. It has claimed the job `first`, and takes one or two more by pgq_ack_claim. */
proctype worker()
{
	byte first, second, third, i, n;
	bool todo[3];
	do
	:: left == 0 -> break
	:: left > 0 ->
		take(first, NONE);
		if
		:: first == NONE -> skip
		:: else ->
			do
			:: undone < UNDONE -> /* lost */
				atomic { work[first] = false; undone++ }
				atomic { end(first) }
				break
			:: /* acknowledged */
				acknowledge(first);
				atomic { end(first); gone[first] = true; left-- }
				break
			:: /* and the next one claimed, and that acknowledged and one more claimed */
				acknowledge(first);
				take(second, first);
				third = NONE;
				if
				:: second != NONE -> acknowledge(second); take(third, second)
				:: true
				fi;
				if
				:: second == NONE ->
					atomic { put_back(first); work[first] = true; check() }
				:: else ->
					if
					:: /* commits: the newest goes on */
						atomic {
							todo[0] = true;
							todo[1] = (third != NONE) || !work[second]
						}
						do
						:: atomic { todo[0] -> todo[0] = false; end(first); gone[first] = true; left-- }
						:: atomic { todo[1] -> todo[1] = false; end(second); gone[second] = true; left-- }
						:: else -> break
						od;
						atomic {
							if
							:: third != NONE -> first = third
							:: third == NONE && taken[second] && work[second] -> first = second
							:: else -> first = NONE
							fi;
							second = NONE;
							third = NONE
						}
						if
						:: first == NONE -> break
						:: else
						fi
					:: undone < UNDONE -> /* is rolled back: first is in work again */
						atomic {
							undone++;
							work[second] = false;
							if
							:: third != NONE -> work[third] = false
							:: else
							fi;
							work[first] = true;
							check();
							todo[0] = true;
							todo[1] = true;
							todo[2] = third != NONE
						}
						do
						:: atomic { todo[0] -> todo[0] = false; put_back(first) }
						:: atomic { todo[1] -> todo[1] = false; end(second) }
						:: atomic { todo[2] -> todo[2] = false; end(third) }
						:: else -> break
						od;
						second = NONE;
						third = NONE
					fi
				fi
			od
		fi
	od;
	if
	:: left == 0 -> assert(running == 0 || WORKERS > 1)
	fi
}

init
{
	byte i;
	atomic {
		for (i : 1 .. WORKERS) {
			run worker()
		}
	}
}
