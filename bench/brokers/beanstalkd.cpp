// beanstalkd, by its protocol: lines of text, and the bodies of jobs. Several commands are sent
// together, and answered one after the other.
#include "broker.h"
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

class Beanstalkd : public Broker
{
public:
	explicit Beanstalkd(const Arguments &arguments)
		: queue(arguments.text("queue")), link(socket(AF_UNIX, SOCK_STREAM, 0))
	{
		sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
		strncpy(address.sun_path, arguments.text("socket").c_str(), sizeof address.sun_path - 1);
		if (connect(link, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
			fail("no beanstalkd");
		send("use " + queue + "\r\nwatch " + queue + "\r\nignore default\r\n");
		expect("USING ");
		expect("WATCHING ");
		expect("WATCHING ");
	}
	~Beanstalkd() override { close(link); }

	void enqueue(const std::vector<long> &numbers) override
	{
		std::string puts;
		for (long number : numbers)
		{
			std::string job = payload_with(number);
			puts += "put 0 0 300 " + std::to_string(job.size()) + "\r\n" + job + "\r\n";
		}
		send(puts);
		for (size_t i = 0; i < numbers.size(); i++)
			expect("INSERTED ");
	}
	bool claim(long jobs, std::vector<long> &numbers) override
	{
		claimed.clear();
		numbers.clear();
		std::string reserves;
		for (long i = 0; i < jobs; i++)
			reserves += "reserve-with-timeout 1\r\n";
		send(reserves);
		for (long i = 0; i < jobs; i++)
		{
			std::string answer = line();
			if (answer == "TIMED_OUT")
				continue;
			size_t space = answer.rfind(' ');
			if (answer.rfind("RESERVED ", 0) != 0)
				fail("beanstalkd: " + answer);
			claimed.push_back(answer.substr(9, space - 9));
			numbers.push_back(number_in(body(std::stoul(answer.substr(space + 1)))));
		}
		return !claimed.empty();
	}
	void ack() override
	{
		std::string deletes;
		for (auto &job : claimed)
			deletes += "delete " + job + "\r\n";
		send(deletes);
		for (size_t i = 0; i < claimed.size(); i++)
			expect("DELETED");
	}
	long count() override
	{
		send("stats-tube " + queue + "\r\n");
		std::string answer = line();
		if (answer.rfind("OK ", 0) != 0)
			fail("beanstalkd: " + answer);
		std::string stats = body(std::stoul(answer.substr(3)));
		long jobs = 0;
		for (std::string name : {"\ncurrent-jobs-ready: ", "\ncurrent-jobs-reserved: "})
			jobs += std::stol(stats.substr(stats.find(name) + name.size()));
		return jobs;
	}

private:
	void send(const std::string &text)
	{
		for (size_t sent = 0; sent < text.size();)
		{
			ssize_t n = write(link, text.data() + sent, text.size() - sent);
			if (n <= 0)
				fail("beanstalkd is gone");
			sent += n;
		}
	}
	void read_on()
	{
		char buffer[16384];
		ssize_t n = read(link, buffer, sizeof buffer);
		if (n <= 0)
			fail("beanstalkd is gone");
		received.erase(0, at);
		at = 0;
		received.append(buffer, n);
	}
	std::string line()
	{
		size_t end;
		while ((end = received.find("\r\n", at)) == std::string::npos)
			read_on();
		std::string text = received.substr(at, end - at);
		at = end + 2;
		return text;
	}
	std::string body(size_t length)
	{
		while (received.size() < at + length + 2)
			read_on();
		std::string text = received.substr(at, length);
		at += length + 2;
		return text;
	}
	void expect(const char *begin)
	{
		std::string answer = line();
		if (answer.rfind(begin, 0) != 0)
			fail("beanstalkd: " + answer + " instead of " + begin);
	}

	const std::string queue;
	const int link;
	std::string received;
	size_t at = 0; // what comes before this position was used
	std::vector<std::string> claimed;
};

} // namespace

std::unique_ptr<Broker>
connect_beanstalkd(const Arguments &arguments)
{
	return std::make_unique<Beanstalkd>(arguments);
}
