// RabbitMQ, through librabbitmq: durable queues, persistent messages, publisher confirms, and
// consumers that acknowledge explicitly. Publishing and consuming use separate connections, as the
// documentation of RabbitMQ recommends.
#include "broker.h"
#include <algorithm>
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <set>

namespace {

constexpr amqp_channel_t channel = 1;

struct Form
{
	const char *queue_type = "classic";
	long prefetch = 0; // 0: as many as are claimed at a time
};

void
check(amqp_rpc_reply_t reply, const char *what)
{
	if (reply.reply_type != AMQP_RESPONSE_NORMAL)
		fail(std::string("RabbitMQ: ") + what + ": " + amqp_error_string2(reply.library_error));
}

class Link
{
public:
	explicit Link(int port) : connection(amqp_new_connection())
	{
		if (amqp_socket_open(amqp_tcp_socket_new(connection), "127.0.0.1", port) != AMQP_STATUS_OK)
			fail("no RabbitMQ");
		check(amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"),
			  "login");
		amqp_channel_open(connection, channel);
		check(amqp_get_rpc_reply(connection), "channel");
	}
	Link(const Link &) = delete;
	~Link()
	{
		amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
		amqp_destroy_connection(connection);
	}
	operator amqp_connection_state_t() const { return connection; }

private:
	amqp_connection_state_t connection;
};

class RabbitMQ : public Broker
{
public:
	RabbitMQ(const Arguments &arguments, const Form &form)
		: queue(arguments.text("queue")),
		  form(form),
		  publisher(int(arguments.number("port", 0))),
		  consumer(int(arguments.number("port", 0)))
	{
		amqp_confirm_select(publisher, channel);
		check(amqp_get_rpc_reply(publisher), "confirms");
		declare();
	}

	void enqueue(const std::vector<long> &numbers) override
	{
		for (long number : numbers)
		{
			publish(payload_with(number));
			unconfirmed.insert(++published);
		}
		while (!unconfirmed.empty())
			confirmation();
		amqp_maybe_release_buffers(publisher);
	}
	bool claim(long jobs, std::vector<long> &numbers) override
	{
		if (!consumes)
			consume(form.prefetch > 0 ? form.prefetch : jobs);
		claimed = 0;
		numbers.clear();
		const timeval patience = {1, 0};
		while (claimed < jobs)
		{
			amqp_envelope_t delivery;
			auto reply = amqp_consume_message(consumer, &delivery, &patience, 0);
			if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
				reply.library_error == AMQP_STATUS_TIMEOUT)
				break;
			check(reply, "delivery");
			auto body = delivery.message.body;
			numbers.push_back(number_in({static_cast<char *>(body.bytes), body.len}));
			tag = delivery.delivery_tag;
			claimed++;
			amqp_destroy_envelope(&delivery);
		}
		return claimed > 0;
	}
	// RabbitMQ sends no answer to an acknowledgement.
	void ack() override
	{
		if (amqp_basic_ack(consumer, channel, tag, claimed > 1) != AMQP_STATUS_OK)
			fail("RabbitMQ: ack");
		amqp_maybe_release_buffers(consumer);
	}
	long count() override { return declare(); }

private:
	// Create the queue. Returns how many messages are ready.
	long declare()
	{
		amqp_table_entry_t type = {amqp_cstring_bytes("x-queue-type"), {}};
		type.value.kind = AMQP_FIELD_KIND_UTF8;
		type.value.value.bytes = amqp_cstring_bytes(form.queue_type);
		auto *answer = amqp_queue_declare(consumer, channel, amqp_cstring_bytes(queue.c_str()), 0,
										  1, 0, 0, {1, &type});
		check(amqp_get_rpc_reply(consumer), "queue");
		return answer->message_count;
	}
	void publish(const std::string &job)
	{
		amqp_basic_properties_t properties = {};
		properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
		properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
		if (amqp_basic_publish(publisher, channel, amqp_empty_bytes,
							   amqp_cstring_bytes(queue.c_str()), 0, 0, &properties,
							   {job.size(), const_cast<char *>(job.data())}) != AMQP_STATUS_OK)
			fail("RabbitMQ: publish");
	}
	// Read the next confirmation: of one message, or of all up to that one.
	void confirmation()
	{
		amqp_frame_t frame;
		if (amqp_simple_wait_frame(publisher, &frame) != AMQP_STATUS_OK ||
			frame.frame_type != AMQP_FRAME_METHOD ||
			frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
			fail("RabbitMQ: not a confirmation");
		auto *ack = static_cast<amqp_basic_ack_t *>(frame.payload.method.decoded);
		if (ack->multiple)
			unconfirmed.erase(unconfirmed.begin(), unconfirmed.upper_bound(ack->delivery_tag));
		else
			unconfirmed.erase(ack->delivery_tag);
	}
	void consume(long prefetch)
	{
		amqp_basic_qos(consumer, channel, 0, std::min(prefetch, 65535L), 0);
		amqp_basic_consume(consumer, channel, amqp_cstring_bytes(queue.c_str()), amqp_empty_bytes,
						   0, 0, 0, amqp_empty_table);
		check(amqp_get_rpc_reply(consumer), "consume");
		consumes = true;
	}

	const std::string queue;
	const Form form;
	Link publisher, consumer;
	uint64_t published = 0; // number of the last published message
	std::set<uint64_t> unconfirmed;
	long claimed = 0;
	uint64_t tag = 0; // delivery tag of the last claimed message
	bool consumes = false;
};

} // namespace

std::unique_ptr<Broker>
connect_rabbitmq(const Arguments &arguments)
{
	return std::make_unique<RabbitMQ>(arguments, Form{});
}

std::unique_ptr<Broker>
connect_rabbitmq_prefetch(const Arguments &arguments)
{
	return std::make_unique<RabbitMQ>(arguments, Form{.prefetch = 100});
}

std::unique_ptr<Broker>
connect_rabbitmq_quorum(const Arguments &arguments)
{
	return std::make_unique<RabbitMQ>(arguments, Form{.queue_type = "quorum"});
}
