// A queue that is no PostgreSQL, as one client sees it through its connection. Its payloads are as
// long as those of the other sides, and carry a number of the client's choice.
#pragma once

#include "../load/basics.h"
#include <memory>
#include <string>
#include <vector>

class Broker
{
public:
	virtual ~Broker() = default;
	// Return when all are as durable as the broker makes them.
	virtual void enqueue(const std::vector<long> &numbers) = 0;
	virtual void ack() = 0; // what was claimed last
	// Up to so many, at least one, however long that takes; false: none has come in a while.
	virtual bool claim(long jobs, std::vector<long> &numbers) = 0;
	virtual long count() = 0; // of jobs that are not done
};

// How a side's clients come to be. The queue is made by the first that asks for it.
using Connect = std::unique_ptr<Broker> (*)(const Arguments &);

std::unique_ptr<Broker> connect_redis_list(const Arguments &);
std::unique_ptr<Broker> connect_redis_stream(const Arguments &);
std::unique_ptr<Broker> connect_rabbitmq(const Arguments &);
std::unique_ptr<Broker> connect_rabbitmq_prefetch(const Arguments &);
std::unique_ptr<Broker> connect_rabbitmq_quorum(const Arguments &);
std::unique_ptr<Broker> connect_beanstalkd(const Arguments &);

std::string payload_with(long number);
long number_in(std::string_view payload);
