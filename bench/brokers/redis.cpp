// Redis, through hiredis, used as its documentation recommends. Commands that are sent together
// form one pipeline.
#include "broker.h"
#include <atomic>
#include <hiredis/hiredis.h>
#include <unistd.h>

namespace {

struct FreeReply
{
	void operator()(redisReply *r) const { freeReplyObject(r); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

class Redis : public Broker
{
protected:
	explicit Redis(const Arguments &arguments)
		: queue(arguments.text("queue")), link(redisConnectUnix(arguments.text("socket").c_str()))
	{
		if (!link || link->err)
			fail("no Redis");
	}
	~Redis() override { redisFree(link); }

	void send(const std::vector<std::string> &words)
	{
		std::vector<const char *> values;
		std::vector<size_t> lengths;
		for (auto &word : words)
		{
			values.push_back(word.data());
			lengths.push_back(word.size());
		}
		redisAppendCommandArgv(link, words.size(), values.data(), lengths.data());
	}
	Reply answer()
	{
		void *reply = nullptr;
		if (redisGetReply(link, &reply) != REDIS_OK)
			fail(std::string("Redis: ") + link->errstr);
		Reply owned(static_cast<redisReply *>(reply));
		if (owned->type == REDIS_REPLY_ERROR && std::string_view(owned->str).find("BUSYGROUP") != 0)
			fail(owned->str);
		return owned;
	}
	Reply run(const std::vector<std::string> &words)
	{
		send(words);
		return answer();
	}

	const std::string queue;

private:
	redisContext *link;
};

// The "reliable queue" of the documentation: claimed jobs are moved to a list of the worker.
class List : public Redis
{
public:
	explicit List(const Arguments &arguments) : Redis(arguments)
	{
		static std::atomic<long> workers = 0;
		taken = queue + ":taken:" + std::to_string(getpid()) + ":" + std::to_string(workers++);
	}
	void enqueue(const std::vector<long> &numbers) override
	{
		std::vector<std::string> words{"LPUSH", queue};
		for (long number : numbers)
			words.push_back(payload_with(number));
		run(words);
	}
	bool claim(long jobs, std::vector<long> &numbers) override
	{
		claimed.clear();
		numbers.clear();
		for (long i = 0; i < jobs; i++)
			send({"BRPOPLPUSH", queue, taken, "1"});
		for (long i = 0; i < jobs; i++)
			if (auto job = answer(); job->type == REDIS_REPLY_STRING)
			{
				claimed.emplace_back(job->str, job->len);
				numbers.push_back(number_in(claimed.back()));
			}
		return !claimed.empty();
	}
	void ack() override
	{
		for (auto &job : claimed)
			send({"LREM", taken, "1", job});
		for (size_t i = 0; i < claimed.size(); i++)
			if (answer()->integer != 1)
				fail("a job was not there to be removed");
	}
	long count() override
	{
		long jobs = run({"LLEN", queue})->integer;
		auto lists = run({"KEYS", queue + ":taken:*"});
		for (size_t i = 0; i < lists->elements; i++)
			jobs += run({"LLEN", lists->element[i]->str})->integer;
		return jobs;
	}

private:
	std::string taken;
	std::vector<std::string> claimed;
};

// A stream with a consumer group. Finished jobs are deleted, since a stream would keep them.
class Stream : public Redis
{
public:
	explicit Stream(const Arguments &arguments) : Redis(arguments)
	{
		static std::atomic<long> workers = 0;
		consumer = std::to_string(getpid()) + ":" + std::to_string(workers++);
		run({"XGROUP", "CREATE", queue, "workers", "0", "MKSTREAM"});
	}
	void enqueue(const std::vector<long> &numbers) override
	{
		for (long number : numbers)
			send({"XADD", queue, "*", "job", payload_with(number)});
		for (size_t i = 0; i < numbers.size(); i++)
			answer();
	}
	bool claim(long jobs, std::vector<long> &numbers) override
	{
		claimed.clear();
		numbers.clear();
		auto streams = run({"XREADGROUP", "GROUP", "workers", consumer, "COUNT",
							std::to_string(jobs), "BLOCK", "1000", "STREAMS", queue, ">"});
		if (streams->type != REDIS_REPLY_ARRAY || streams->elements == 0)
			return false;
		redisReply *entries = streams->element[0]->element[1];
		for (size_t i = 0; i < entries->elements; i++)
		{
			redisReply **entry = entries->element[i]->element, *job = entry[1]->element[1];
			claimed.emplace_back(entry[0]->str);
			numbers.push_back(number_in({job->str, job->len}));
		}
		return true;
	}
	void ack() override
	{
		std::vector<std::string> xack{"XACK", queue, "workers"}, xdel{"XDEL", queue};
		xack.insert(xack.end(), claimed.begin(), claimed.end());
		xdel.insert(xdel.end(), claimed.begin(), claimed.end());
		send(xack);
		send(xdel);
		for (int i = 0; i < 2; i++)
			if (answer()->integer != static_cast<long>(claimed.size()))
				fail("a job was not there to be acknowledged");
	}
	long count() override { return run({"XLEN", queue})->integer; }

private:
	std::string consumer;
	std::vector<std::string> claimed;
};

} // namespace

std::unique_ptr<Broker>
connect_redis_list(const Arguments &arguments)
{
	return std::make_unique<List>(arguments);
}

std::unique_ptr<Broker>
connect_redis_stream(const Arguments &arguments)
{
	return std::make_unique<Stream>(arguments);
}
