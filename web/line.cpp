#include "line.h"

#include <chrono>

namespace web {

static constexpr double kCatalogSeconds = 60;
static constexpr std::chrono::seconds kLinePatience(10);

Line::Use
Line::use(const Address *address)
{
	std::unique_lock<std::timed_mutex> lock(mutex, kLinePatience);
	if (!lock.owns_lock())
		throw Failure{503, "busy", "earlier requests still wait for the database"};
	return ready(std::move(lock), address);
}

std::optional<Line::Use>
Line::try_use(const Address *address)
{
	std::unique_lock<std::timed_mutex> lock(mutex, std::try_to_lock);
	if (!lock.owns_lock())
		return {};
	return ready(std::move(lock), address);
}

Line::Use
Line::ready(std::unique_lock<std::timed_mutex> lock, const Address *address)
{
	if (address != nullptr && (!connection || connection->is_lost()))
	{
		catalog.reset();
		try
		{
			connection = Connection::open(*address);
		}
		catch (Failure &failure)
		{
			/* Only a login can fail because of its password; this is a fault of the program's own role. */
			failure.status = 503, failure.code = "database";
			throw;
		}
	}
	if (connection->is_lost())
		catalog.reset();
	if (!catalog || steady_now() - catalog_at > kCatalogSeconds)
	{
		catalog.reset();
		catalog = Catalog::of(*connection);
		catalog_at = steady_now();
	}
	return {std::move(lock), *connection, *catalog};
}

Line::Use
Pool::use()
{
	size_t first = next++;
	for (size_t i = 0; i < kLines; i++)
		if (std::optional<Line::Use> use = lines[(first + i) % kLines].try_use(&server))
			return std::move(*use);
	return lines[first % kLines].use(&server);
}

} // namespace web
