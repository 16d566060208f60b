// A queue outside of PostgreSQL, as one client sees it through its connection. Its payloads have
// the same length as those of the other sides, and contain a number that the client chooses.
#pragma once

#include "../load/basics.h"
#include <memory>
#include <string>
#include <vector>

class Broker
{
public:
	virtual ~Broker() = default;
	// Enqueue jobs. Returns when all of them are as durable as the broker can make them.
	virtual void enqueue(const std::vector<long> &numbers) = 0;
	virtual void ack() = 0; // Acknowledge the jobs that were claimed last.
	// Claim at most `jobs` jobs. Waits for the first one; returns false if none has come for a
	// while.
	virtual bool claim(long jobs, std::vector<long> &numbers) = 0;
	virtual long count() = 0; // Return the number of jobs that are not done.
};

// The function that connects a client of a side. The first client of a queue creates the queue.
using Connect = std::unique_ptr<Broker> (*)(const Arguments &);

std::unique_ptr<Broker> connect_redis_list(const Arguments &);
std::unique_ptr<Broker> connect_redis_stream(const Arguments &);
std::unique_ptr<Broker> connect_rabbitmq(const Arguments &);
std::unique_ptr<Broker> connect_rabbitmq_prefetch(const Arguments &);
std::unique_ptr<Broker> connect_rabbitmq_quorum(const Arguments &);
std::unique_ptr<Broker> connect_beanstalkd(const Arguments &);

std::string payload_with(long number);
long number_in(std::string_view payload);
