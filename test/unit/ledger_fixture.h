/* What tests of the torture test's ledger tell the ledger: statements and answers. */
#pragma once

#include "test/torture/ledger.h"

#include <gtest/gtest.h>

namespace torture {

constexpr Epoch kServer = {1, 100};
constexpr Epoch kStandby = {2, 200};
constexpr int64_t kToken = 1 << 10; /* multiples of it are drawn one after the other */
constexpr int64_t kUnknown = 999;

/* Let time pass, so that later events have another time than earlier ones. */
inline void
later()
{
	for (Time before = now(); now() == before;)
		;
}

class LedgerTest : public testing::Test
{
protected:
	Ledger ledger;

	void SetUp() override { testing::internal::CaptureStdout(); }

	void TearDown() override
	{
		std::string more = testing::internal::GetCapturedStdout();
		EXPECT_EQ(more, "");
	}

	std::string told()
	{
		std::string said = testing::internal::GetCapturedStdout();
		testing::internal::CaptureStdout();
		return said;
	}

	/* Expect a violation whose text contains `what`. */
	void expect(const std::string &what)
	{
		std::string said = told();
		EXPECT_NE(said.find(what), std::string::npos) << "not told: " << what << "\n" << said;
		EXPECT_EQ(ledger.violations() > 0, true);
	}

	void expect_nothing()
	{
		EXPECT_EQ(told(), "");
		EXPECT_EQ(ledger.violations(), 0);
	}

	TxRef begin(Epoch epoch = kServer) { return ledger.begin(epoch); }

	void commit(const TxRef &tx)
	{
		later();
		ledger.ending(tx);
		later();
		ledger.committed(tx);
		later();
	}

	Key enqueue(const TxRef &tx, const std::string &queue = "q", Time delay = 0,
				Time expires_in = 0)
	{
		later();
		Key key = ledger.enqueuing(tx, queue, 0, delay, expires_in);
		ledger.enqueued(key, 100 + key);
		return key;
	}

	Key job(const std::string &queue = "q", Time delay = 0, Time expires_in = 0)
	{
		TxRef tx = begin();
		Key key = enqueue(tx, queue, delay, expires_in);
		commit(tx);
		return key;
	}

	/* Return a job of the queue whose key has that remainder. */
	Key job_like(const std::string &queue, Key remainder, Key divisor)
	{
		for (;;)
		{
			TxRef tx = begin();
			Key key = enqueue(tx, queue);
			if (key % divisor == remainder)
			{
				commit(tx);
				return key;
			}
			ledger.aborted(tx);
		}
	}

	/* Use up keys until the next job of the queue is of this group. */
	void skip_to(const std::string &queue, int group)
	{
		for (;;)
		{
			TxRef tx = begin();
			Key key = enqueue(tx);
			ledger.aborted(tx);
			if (group_of(queue, key + 1) == group)
				return;
		}
	}

	/* Return a job of the queue and group. */
	Key job_of(const std::string &queue, int group)
	{
		skip_to(queue, group);
		return job(queue);
	}

	struct Claim
	{
		int attempt = 1;
		int max_attempts = 3;
		Epoch epoch = kServer;
		TxRef tx;
		std::string queue = "q";
		int priority = 0;
		int64_t id = 0; /* 0: the id of the job */
		Time lease_time = 60 * kSecond;
	};

	Held claim(Key key, int64_t token, const Claim &how)
	{
		later();
		ClaimCall call = ledger.claiming(how.epoch, {how.queue}, how.lease_time);
		later();
		Held held = {key, how.id != 0 ? how.id : 100 + key, token, how.attempt, how.max_attempts};
		ledger.claimed(call, how.tx, {{held, how.priority, how.queue}});
		later();
		return held;
	}
	Held claim(Key key, int64_t token) { return claim(key, token, Claim{}); }

	/* End a lease, by a transaction of its own or as a part of an open transaction. */
	void end(const Held &held, Deed deed, Epoch epoch = kServer)
	{
		TxRef tx = begin(epoch);
		ledger.intend(tx, held, deed);
		ledger.ending(tx);
		later();
		ledger.accepted(tx, held, deed, now());
		later();
		ledger.committed(tx);
		later();
	}
	void end_in(const TxRef &tx, const Held &held, Deed deed)
	{
		later();
		ledger.accepted(tx, held, deed, now());
		later();
	}

	void find_nothing(const std::string &queue)
	{
		later();
		ledger.claimed(ledger.claiming(kServer, {queue}, kSecond), nullptr, {});
	}
};

} // namespace torture
