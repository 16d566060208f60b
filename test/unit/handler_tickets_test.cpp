#include "core/handler_tickets.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace {

using namespace pgq;

constexpr int64_t kNow = 1'000'000'000;
constexpr int64_t kVoid = HandlerTickets::kVoidAfter;

class Tickets : public testing::Test
{
protected:
	/* Return whether the role may take a slot. */
	bool goes(uint32_t database, uint32_t role, int64_t now = kNow)
	{
		return !line.another_goes_first(database, role, now, [&](uint32_t d, uint32_t r) {
			return working.count({d, r}) > 0;
		});
	}

	HandlerTicket entries[4] = {};
	uint64_t drawn = 0;
	HandlerTickets line{entries, 4, &drawn};
	std::set<std::pair<uint32_t, uint32_t>> working;
};

TEST_F(Tickets, WithoutTicketsAnybodyGoes)
{
	EXPECT_TRUE(goes(1, 1));
	EXPECT_FALSE(line.any_waits(kNow));
	working = {{1, 1}};
	EXPECT_TRUE(goes(1, 1));
}

TEST_F(Tickets, TheOldestGoesFirst)
{
	line.keep(1, 1, kNow);
	line.keep(2, 1, kNow);
	EXPECT_TRUE(goes(1, 1));
	EXPECT_FALSE(goes(2, 1));
	EXPECT_FALSE(goes(3, 1)) << "no ticket";
	line.keep(1, 1, kNow + 1); /* renewed, not drawn anew */
	EXPECT_TRUE(goes(1, 1));
	line.remove(1, 1, kNow + 1);
	EXPECT_TRUE(goes(2, 1));
	EXPECT_EQ(drawn, 2U);
}

TEST_F(Tickets, ARoleWithoutAWorkerGoesBeforeOneWithAWorker)
{
	line.keep(1, 1, kNow);
	line.keep(1, 2, kNow);
	working = {{1, 1}};
	EXPECT_FALSE(goes(1, 1));
	EXPECT_TRUE(goes(1, 2));
	EXPECT_FALSE(goes(1, 3)) << "no ticket and no worker";
	working = {{1, 1}, {1, 2}};
	EXPECT_TRUE(goes(1, 1));
	EXPECT_TRUE(goes(1, 3)) << "no worker";
}

TEST_F(Tickets, AreVoidIfNobodyRenewsThem)
{
	line.keep(1, 1, kNow);
	line.keep(2, 1, kNow + 1);
	EXPECT_FALSE(goes(2, 1, kNow + kVoid - 1));
	EXPECT_TRUE(goes(2, 1, kNow + kVoid));
	EXPECT_TRUE(line.any_waits(kNow + kVoid));
	EXPECT_FALSE(line.any_waits(kNow + kVoid + 1));
	/* A role that comes back later stands at the end. */
	line.keep(2, 1, kNow + kVoid);
	line.keep(1, 1, kNow + kVoid);
	EXPECT_TRUE(goes(2, 1, kNow + kVoid));
	EXPECT_FALSE(goes(1, 1, kNow + kVoid));
}

TEST_F(Tickets, OnlyOthersMakeAWorkerLeave)
{
	line.keep(1, 1, kNow);
	EXPECT_TRUE(line.any_waits(kNow));
	EXPECT_FALSE(line.another_waits(1, 1, kNow));
	EXPECT_TRUE(line.another_waits(1, 2, kNow));
	EXPECT_TRUE(line.another_waits(2, 1, kNow));
}

TEST_F(Tickets, AreDroppedIfTheirRolesWantNoSlotAnyMore)
{
	int left;
	line.keep(1, 1, kNow);
	line.keep(1, 2, kNow);
	line.keep(2, 1, kNow);
	line.keep(1, 2, kNow + 10);
	EXPECT_EQ(line.remove_older(1, kNow + 1, &left), 1);
	EXPECT_EQ(left, 1);
	EXPECT_TRUE(goes(1, 2, kNow + 11));
	EXPECT_FALSE(goes(2, 1, kNow + 11));
	EXPECT_EQ(line.remove_older(1, kNow + 11, &left), 1);
	EXPECT_EQ(left, 0);
	EXPECT_TRUE(goes(2, 1, kNow + 11));
}

TEST_F(Tickets, AnEntryIsUsedAgain)
{
	for (uint32_t role = 1; role <= 5; role++)
		line.keep(1, role, kNow); /* there is no entry for the last one */
	EXPECT_EQ(drawn, 4U);
	line.remove(1, 2, kNow);
	line.keep(1, 5, kNow);
	EXPECT_EQ(drawn, 5U);
	EXPECT_TRUE(goes(1, 1));
	line.remove(1, 1, kNow);
	EXPECT_TRUE(goes(1, 3));
	EXPECT_FALSE(goes(1, 5));
}

} // namespace
