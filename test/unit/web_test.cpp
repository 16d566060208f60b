// The parts of pgq-web that need neither a server nor HTTP.
#include "web/files.h"
#include "web/history.h"
#include "web/json.h"
#include "web/options.h"
#include "web/safety.h"

#include <cmath>
#include <gtest/gtest.h>

namespace web {

// The build embeds the page; the tests have one of their own.
static const unsigned char kIndex[] = "<a data-prefix=\"@PREFIX@\" href=\"@PREFIX@/x\">";
static const unsigned char kScript[] = "'@PREFIX@'";
extern const PageFile kPageFiles[] = {{"/index.html", kIndex, sizeof(kIndex) - 1},
									  {"/app.js", kScript, sizeof(kScript) - 1}};
extern const unsigned kPageFileCount = 2;

namespace {

Options
options_of(std::vector<const char *> words)
{
	words.insert(words.begin(), "pgq-web");
	words.push_back(nullptr);
	return parsed_options(static_cast<int>(words.size()) - 1, const_cast<char **>(words.data()));
}

TEST(WebJson, WritesNestedValues)
{
	Json json;
	json.begin_object().name("a").begin_array().number(1).text("<\"\n").null().end_array();
	json.name("b").begin_object().end_object().name("c").flag(true).end_object();
	EXPECT_EQ(json.document(), R"({"a":[1,"<\"\u000a",null],"b":{},"c":true})");
}

TEST(WebJson, ReadsFlatObjects)
{
	auto read =
		parsed_object(R"( {"a": "x\u00fc\ud83d\ude00\n", "b": -1.5e3, "c": null, "d": true} )");
	ASSERT_TRUE(read);
	EXPECT_EQ((*read)["a"], "x\xc3\xbc\xf0\x9f\x98\x80\n");
	EXPECT_EQ((*read)["b"], "-1.5e3");
	EXPECT_FALSE((*read)["c"]);
	EXPECT_EQ((*read)["d"], "true");
	EXPECT_TRUE(parsed_object("{}"));
}

TEST(WebJson, RefusesWhatIsNoFlatObject)
{
	for (const char *text :
		 {"", "[]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":{}}", "{\"a\":[1]}",
		  "{\"a\":1}x", "{\"a\":1,\"a\":2}", "{\"a\":\"\\u0000\"}", "{\"a\":\"\\ud800\"}",
		  "{\"a\":\"\\ud800\\u0041\"}", "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", "{\"a\":\"x",
		  "{\"a\":1-2}", "{\"a\":nul}"})
		EXPECT_FALSE(parsed_object(text)) << text;
}

TEST(WebSafety, KnowsItsHosts)
{
	Hosts hosts;
	hosts.add_listener("127.0.0.1", 8080);
	hosts.add("Queues.Example");
	hosts.add("other.example:81");
	for (const char *host : {"127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080",
							 "queues.example", "queues.example:443", "other.example:81"})
		EXPECT_TRUE(hosts.allows(host)) << host;
	for (const char *host : {"", "evil.example", "127.0.0.1", "127.0.0.1:81",
							 "localhost.evil.example:8080", "other.example", "queues.example.evil"})
		EXPECT_FALSE(hosts.allows(host)) << host;
	EXPECT_TRUE(Hosts::is_same_origin("https://Queues.example", "queues.example"));
	EXPECT_FALSE(Hosts::is_same_origin("null", "queues.example"));
	EXPECT_FALSE(Hosts::is_same_origin("http://queues.example:81", "queues.example"));
}

TEST(WebSafety, FindsCookies)
{
	EXPECT_EQ(cookie_of("a=1; pgq=2;pgq2=3", "pgq"), "2");
	EXPECT_EQ(cookie_of("a=1; xpgq=2", "pgq"), "");
	EXPECT_EQ(cookie_of("", "pgq"), "");
	EXPECT_EQ(cookie_of(";;; pgq=", "pgq"), "");
}

TEST(WebSafety, ComparesSecrets)
{
	EXPECT_TRUE(is_same_secret("abc", "abc"));
	EXPECT_FALSE(is_same_secret("abc", "abd"));
	EXPECT_FALSE(is_same_secret("", "abc"));
	EXPECT_FALSE(is_same_secret("abc", "ab"));
	EXPECT_EQ(random_token().size(), 64u);
	EXPECT_NE(random_token(), random_token());
}

TEST(WebSafety, LimitsFailedLogins)
{
	Limiter limiter;
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(limiter.wait_for("a", 100 + i), 0);
	EXPECT_EQ(limiter.wait_for("a", 110), 50);
	EXPECT_EQ(limiter.wait_for("b", 110), 0);
	limiter.forgive("a");
	EXPECT_EQ(limiter.wait_for("a", 110), 0);
	EXPECT_GT(limiter.wait_for("a", 111), 0);
	EXPECT_EQ(limiter.wait_for("a", 171), 0);
}

TEST(WebHistory, ComputesPercentiles)
{
	double inf = std::numeric_limits<double>::infinity();
	Histogram before = {{1, 10}, {2, 10}, {inf, 10}}, after = {{1, 10}, {2, 20}, {inf, 20}};
	EXPECT_DOUBLE_EQ(percentile(before, after, 0.5), 1.5);
	EXPECT_TRUE(std::isnan(percentile(after, after, 0.5)));
	EXPECT_TRUE(std::isnan(percentile({}, {}, 0.5)));
	EXPECT_DOUBLE_EQ(percentile({}, {{1, 0}, {inf, 5}}, 0.5), 1);
}

TEST(WebHistory, KeepsAnHourOfRates)
{
	History history;
	double nan = std::nan("");
	Counters counters = {0, 0, 0, 0, 0, 7, nan, nan, nan, nan};
	for (int i = 0; i < 400; i++, counters.enqueued += 20)
		history.add(std::to_string(i), i * 10, {{"q", counters}}, nullptr);
	EXPECT_DOUBLE_EQ(history.pace("q").enqueued, 2);
	EXPECT_DOUBLE_EQ(history.pace("q").acked, 0);
	EXPECT_TRUE(std::isnan(history.pace("other").enqueued));
	Json json;
	history.write(json, "*");
	EXPECT_TRUE(json.document().starts_with(R"({"times":["40","41",)"))
		<< json.document().substr(0, 50);
	/* A counter that has begun anew. */
	counters.enqueued = 10;
	history.add("x", 4000, {{"q", counters}}, nullptr);
	EXPECT_GT(history.pace("q").enqueued, 0);
	history.add("x", 4010, {}, nullptr);
	EXPECT_TRUE(std::isnan(history.pace("q").enqueued));
}

TEST(WebFiles, ShowsViewsAndFiles)
{
	EXPECT_EQ(file_at("/", "/p")->content, "<a data-prefix=\"/p\" href=\"/p/x\">");
	EXPECT_EQ(file_at("/queues/a.js", "")->type, "text/html; charset=utf-8");
	EXPECT_EQ(file_at("/app.js", "/p")->content, "'@PREFIX@'");
	EXPECT_NE(file_at("/app.js", "")->etag, file_at("/", "")->etag);
	EXPECT_FALSE(file_at("/none.js", ""));
	EXPECT_FALSE(file_at("/../etc/passwd.txt", ""));
}

TEST(WebOptions, ReadsOptions)
{
	Options options = options_of({"--listen", "[::1]:0", "--prefix=/a/b/", "--host", "x",
								  "--read-only", "--hide-payload", "-U", "me", "db"});
	EXPECT_EQ(options.error, "");
	EXPECT_EQ(options.listen_host + std::to_string(options.listen_port), "::10");
	EXPECT_EQ(options.prefix, "/a/b");
	EXPECT_TRUE(options.is_readonly && options.hides_payload);
	EXPECT_EQ(options.address.user + options.address.database, "medb");
	EXPECT_EQ(options_of({}).listen_host, "127.0.0.1");
	EXPECT_EQ(options_of({"--help"}).mode, Options::Mode::help);
	EXPECT_EQ(options_of({"-V"}).mode, Options::Mode::version);
	for (std::vector<const char *> words :
		 std::vector<std::vector<const char *>>{{"--listen", "x"},
												{"--listen", ":1"},
												{"--listen", "a:1x"},
												{"--listen", "a:70000"},
												{"--listen", "::1:80"},
												{"--prefix", "a"},
												{"--prefix", "//a"},
												{"--prefix", "/\"x"},
												{"--none"},
												{"--host"},
												{"--trusted-proxy"},
												{"--require-login", "--read-only"},
												{"a", "b"}})
		EXPECT_NE(options_of(words).error, "") << words[0];
}

TEST(WebSafety, FindsTheCallerBehindTrustedProxies)
{
	std::set<std::string> proxies = {"127.0.0.1", "10.0.0.1"};
	EXPECT_EQ(caller_of("192.0.2.1", "10.9.9.9", proxies), "192.0.2.1");
	EXPECT_EQ(caller_of("127.0.0.1", "", proxies), "127.0.0.1");
	EXPECT_EQ(caller_of("127.0.0.1", "1.2.3.4, 192.0.2.1", proxies), "192.0.2.1");
	EXPECT_EQ(caller_of("127.0.0.1", "192.0.2.1,10.0.0.1 ", proxies), "192.0.2.1");
	EXPECT_EQ(caller_of("127.0.0.1", "2001:db8::1", proxies), "2001:db8::1");
	EXPECT_EQ(caller_of("127.0.0.1", "192.0.2.1, \x1b[2J\n", proxies), "127.0.0.1");
	EXPECT_EQ(caller_of("127.0.0.1", ",,", proxies), "127.0.0.1");
}

} // namespace

} // namespace web
