// headwise serve against requests that are wrong, too large, too slow, too many or another's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <thread>

#include "program/served_model.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class ServeRequests : public testing::Test {
 protected:
  static void SetUpTestSuite() { served_ = new ServedModel("bert"); }
  static void TearDownTestSuite() {
    EXPECT_EQ(served_->get("/api/model").status, 200) << "it did not live through this";
    delete served_;
  }

  static HttpAnswer look(const json& request) { return served_->post("/api/look", request); }

  static ServedModel* served_;
};
ServedModel* ServeRequests::served_ = nullptr;

TEST_F(ServeRequests, OnlyItsOwnNamesAndPages) {
  const auto status = [&](const std::string& host, const std::string& more = "") {
    return served_->send("GET /api/model HTTP/1.1\r\n" + host + more + "\r\n").status;
  };
  const std::string port = std::to_string(served_->port());
  for (const std::string& name : {"127.0.0.1:" + port, "localhost:" + port, "LOCALHOST:" + port,
                                  "[::1]:" + port, std::string("localhost")}) {
    EXPECT_EQ(status("Host: " + name + "\r\n"), 200) << name;
    EXPECT_EQ(status("Host: " + name + "\r\n", "Origin: http://" + name + "\r\n"), 200) << name;
  }
  for (const std::string name : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
                                 "10.0.0.1", "0.0.0.0", "2130706433"}) {
    EXPECT_EQ(status("Host: " + name + "\r\n"), 403) << name;
  }
  for (const std::string& name :
       {"127.0.0.1:" + port + "@evil.example", std::string("localhost:80:evil"),
        std::string("localhost:"), std::string("localhost:x"), std::string("localhost:99999"),
        std::string("evil.example:80@127.0.0.1"), std::string("[::1"), std::string("[localhost]"),
        std::string("local host"), std::string(""), std::string(5'000, 'a')}) {
    EXPECT_EQ(status("Host: " + name + "\r\n"), 400) << name;
  }
  EXPECT_EQ(status(""), 400);
  EXPECT_EQ(status("Host: localhost\r\nHost: evil.example\r\n"), 400);
  EXPECT_EQ(status("Host: localhost\r\nHost: localhost\r\n"), 400);
  for (const std::string origin : {"http://evil.example", "null", "http://localhost:3000",
                                   "https://localhost", "http://localhost.evil.example"}) {
    EXPECT_EQ(status("Host: localhost\r\n", "Origin: " + origin + "\r\n"), 403) << origin;
  }
  EXPECT_EQ(
      status("Host: localhost\r\n", "Origin: http://localhost\r\nOrigin: http://evil.example\r\n"),
      403);
  const HttpAnswer answer = served_->send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(answer.error()["where"], "Host");
  EXPECT_THAT(answer.error()["hint"].get<std::string>(), HasSubstr("--allow-host"));
}

TEST(ServeNames, OtherNamesCanBeAllowed) {
  const ServedModel served("bert", {"--allow-host", "Box.example"});
  const auto status = [&](const std::string& host) {
    return served.send("GET /api/model HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  EXPECT_EQ(status("box.example:80"), 200);
  EXPECT_EQ(status("other.example:80"), 403);
}

TEST(ServeNames, OnEveryAddressAnyAddressIsItsOwn) {
  const ServedModel served("bert", {"--host", "0.0.0.0"});
  const auto status = [&](const std::string& host) {
    return served.send("GET /api/model HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  EXPECT_EQ(status("10.0.0.1:80"), 200);
  EXPECT_EQ(status("box.example"), 403);
}

TEST_F(ServeRequests, NoPlacesButItsOwn) {
  for (const char* path : {"/no", "/api", "/api/models", "/api/look/", "/../etc/passwd", "//",
                           "/%2e%2e/%2e%2e/etc/passwd", "/api/jobs/%00", "/%ff%fe", "/?x=1&y"}) {
    const HttpAnswer answer = served_->get(path);
    EXPECT_EQ(answer.status, std::string(path) == "/?x=1&y" ? 200 : 404) << path;
  }
  EXPECT_EQ(served_->get("/" + std::string(5000, 'a')).status, 404);
  EXPECT_EQ(served_->get("/" + std::string(9000, 'a')).status, 414);
  for (const char* method : {"PUT", "PATCH", "OPTIONS", "DELETE"}) {
    const HttpAnswer answer = served_->ask(method, "/api/look", "{}");
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_THAT(answer.headers, HasSubstr("Allow: POST\r\n"));
    EXPECT_EQ(answer.error()["got"], method);
  }
  EXPECT_EQ(served_->get("/api/look").status, 405);
  EXPECT_EQ(served_->post("/api/model", {}).status, 405);
  EXPECT_EQ(served_->post("/", {}).status, 405);
  EXPECT_EQ(served_->ask("BREW", "/").status, 400);
}

TEST_F(ServeRequests, PagesOfOthersMayNotShowIt) {
  const HttpAnswer page = served_->get("/");
  for (const char* header : {"frame-ancestors 'none'", "connect-src 'self'", "nosniff", "no-store",
                             "Cross-Origin-Resource-Policy: same-origin"}) {
    EXPECT_THAT(page.headers, HasSubstr(header));
  }
  EXPECT_THAT(page.headers, Not(HasSubstr("Access-Control")));
  const HttpAnswer head = served_->ask("HEAD", "/");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  std::string many = "Range: bytes=0-";
  for (int i = 0; i < 500; ++i) many += ",0-";
  const HttpAnswer ranges = served_->ask("GET", "/", "", many + "\r\n");
  EXPECT_EQ(ranges.body, page.body);
  const HttpAnswer packed = served_->ask("GET", "/", "", "Accept-Encoding: gzip, br\r\n");
  EXPECT_EQ(packed.body, page.body);
}

TEST_F(ServeRequests, WrongOnesSayWhatIsWrong) {
  struct Wrong {
    std::string body, what;
  };
  for (const auto& [body, what] :
       std::initializer_list<Wrong>{{"", "the request"},
                                    {"{", "the request"},
                                    {"[]", "object"},
                                    {"null", "object"},
                                    {R"({"text": "a", "text": "b"})", "text"},
                                    {"{\"text\": \"\xff\xfe\"}", "UTF-8"},
                                    {R"({"text": "\ud800"})", "the request"},
                                    {std::string(60'000, '['), "the request"},
                                    {R"({})", "text"},
                                    {R"({"text": 5})", "text"},
                                    {R"({"text": "w5", "other": 1})", "other"},
                                    {R"({"text": "w5", "gates": []})", "gates"},
                                    {R"({"text": "w5", "gates": {"L0.H0": "off"}})", "L0.H0"},
                                    {R"({"text": "w5", "gates": {"L0.H0": 1.5}})", "gates.L0.H0"},
                                    {R"({"text": "w5", "gates": {"L0.H0": -0.1}})", "gates.L0.H0"},
                                    {R"({"text": "w5", "gates": {"L0.H0": 1e999}})", "the request"},
                                    {R"({"text": "w5", "gates": {"": 0}})", "gates"},
                                    {R"({"text": "w5", "gates": {"L0.H99": 0}})", "no such head"},
                                    {R"({"text": "w5", "gates": {"<script>": 0}})", "gates"}}) {
    const HttpAnswer answer = served_->ask("POST", "/api/look", body);
    EXPECT_EQ(answer.status, 400) << body;
    for (const char* field : {"what", "where", "got", "expected", "hint"}) {
      EXPECT_TRUE(answer.error().contains(field)) << body;
    }
    EXPECT_THAT(answer.body, HasSubstr(what)) << body;
  }
  const HttpAnswer head = look({{"text", "w5"}, {"gates", {{"L0.H99", 0}}}});
  EXPECT_THAT(head.error()["hint"].get<std::string>(), HasSubstr("/api/model"));
  for (const char* body :
       {R"({})", R"({"kind": "format"})", R"({"kind": "plan", "keep": 2})",
        R"({"kind": "plan", "order": "alphabet"})", R"({"kind": "plan", "keep": "all"})",
        R"({"kind": "ablate", "file": "/etc/passwd"})", R"({"kind": "ablate", "text": 1})"}) {
    EXPECT_EQ(served_->ask("POST", "/api/jobs", body).status, 400) << body;
  }
  json long_text = {{"kind", "ablate"}, {"text", std::string(2 * 513, '\n')}};
  EXPECT_EQ(served_->post("/api/jobs", long_text).status, 400);
}

TEST_F(ServeRequests, LargeOnesAreRefusedUnread) {
  const HttpAnswer answer = look({{"text", std::string(65'536, 'a')}});
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.error()["expected"].get<std::string>(), HasSubstr("65536"));
  const std::string begin = "POST /api/look HTTP/1.1\r\nHost: localhost\r\n";
  for (const char* length : {"99999999999999999999", "9223372036854775807", "1000000000"}) {
    EXPECT_EQ(served_->send(begin + "Content-Length: " + length + "\r\n\r\n{").status, 413);
  }
  std::string chunks = begin + "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 20; ++i) chunks += "1000\r\n" + std::string(0x1000, 'a') + "\r\n";
  EXPECT_EQ(served_->send(chunks + "0\r\n\r\n").status, 413);
  EXPECT_EQ(served_->ask("DELETE", "/api/look", std::string(70'000, 'a')).status, 413);

  std::string headers = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 100'000; ++i) headers += "X-" + std::to_string(i) + ": 1\r\n";
  EXPECT_NE(served_->send(headers + "\r\n").status, 200);
  EXPECT_EQ(served_->get("/api/model").status, 200);
}

TEST_F(ServeRequests, OnesOfUnclearLengthAreRefused) {
  const std::string begin = "POST /api/look HTTP/1.1\r\nHost: localhost\r\n";
  const std::string body = R"({"text": "w5"})";
  for (const std::string length : {"abc", "", "-1", "+14", "14x", "0x0e", "1 4", "14,14"}) {
    const HttpAnswer answer =
        served_->send(begin + "Content-Length: " + length + "\r\n\r\n" + body);
    EXPECT_EQ(answer.status, 400) << length;
  }
  EXPECT_EQ(served_->send(begin + "Content-Length: 14\r\nContent-Length: 14\r\n\r\n" + body).status,
            400);
  EXPECT_EQ(served_->send(begin + "Content-Length: 14\r\n\r\n" + body).status, 200);
  const std::string chunks = "e\r\n" + body + "\r\n0\r\n\r\n";
  EXPECT_EQ(
      served_->send(begin + "Content-Length: 14\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
          .status,
      400);
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, chunked", "xchunked", ""}) {
    EXPECT_EQ(served_->send(begin + "Transfer-Encoding: " + coding + "\r\n\r\n" + chunks).status,
              400)
        << coding;
  }
  EXPECT_EQ(served_->send(begin + "Transfer-Encoding: chunked\r\n\r\n" + chunks).status, 200);
}

TEST_F(ServeRequests, ChunksAreReadLikeAWhole) {
  const HttpAnswer answer = served_->send(
      "POST /api/look HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "9\r\n{\"text\": \r\n5\r\n\"w5\"}\r\n0\r\n\r\n");
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST_F(ServeRequests, NoRequestsAtAll) {
  for (const std::string bytes :
       {"\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x01\r\n\r\n",
        "POST /api/look HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /api/look HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
        "boundary=a\r\nContent-Length: 2\r\n\r\n{}"}) {
    const HttpAnswer answer = served_->send(bytes);
    EXPECT_GE(answer.status, 400) << bytes;
    EXPECT_LT(answer.status, 500) << bytes;
    EXPECT_TRUE(answer.json().contains("error")) << bytes;
  }
}

TEST_F(ServeRequests, HostileTextsAreTexts) {
  const std::string letter = "\xf0\x9f\x98\x80";  // an emoji: four bytes, one character
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += letter;
  for (const std::string& text :
       {std::string(10'000, 'a'), std::string(9'999, ' ') + "w", many,
        std::string("</script><script>alert(1)</script>"), std::string("שלום \u202e w5 \u202c"),
        std::string("w5\0w6", 5), std::string("\x01\x1b[31m\x7f"), std::string("")}) {
    const HttpAnswer answer = look({{"text", text}});
    EXPECT_EQ(answer.status, 200) << answer.body.substr(0, 200);
    EXPECT_TRUE(answer.json()["maps"].contains("L0.H0"));
  }
  const HttpAnswer answer = look({{"text", many + "a"}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error()["got"], "10001 characters");
}

TEST_F(ServeRequests, ConnectionsThatSayNothingGiveWay) {
  std::list<Client> idle;
  for (int i = 0; i < 600; ++i) {  // more than may be
    idle.emplace_back(served_->port()).send("POST /api/look HT");
    if (i % 50 == 0) {
      EXPECT_EQ(served_->get("/api/model").status, 200) << i;
    }
  }
  EXPECT_EQ(look({{"text", "w5 w6"}}).status, 200);
  EXPECT_EQ(idle.front().receive().status, 0);  // it was closed
}

TEST_F(ServeRequests, APageIsAnsweredWhileOthersAskMoreThanCanBe) {
  std::atomic<bool> ends = false;
  std::vector<std::thread> others;
  const std::string body = json{{"text", "w5 w6 w7 w8"}}.dump();
  const std::string request = "POST /api/look HTTP/1.1\r\nHost: " + served_->host() +
                              "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                              body;
  for (int i = 0; i < 50; ++i) {
    others.emplace_back([&] {
      std::list<Client> slow;  // four at a time whose answers nobody takes
      while (!ends) {
        try {
          slow.emplace_back(served_->port()).send(request);
        } catch (const std::exception&) {
        }
        if (slow.size() > 4) slow.pop_front();
        usleep(1000);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const HttpAnswer answer = served_->ask("POST", "/api/look", body, "Headwise-Page: mine\r\n");
    EXPECT_EQ(answer.status, 200) << answer.body.substr(0, 200);
  }
  ends = true;
  for (std::thread& other : others) other.join();
}

TEST_F(ServeRequests, ManyAtOnceGetAnAnswerOrAreAskedToComeAgain) {
  std::atomic<int> served = 0, refused = 0, other = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 40; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 5; ++k) {
        const HttpAnswer answer = look({{"text", "w5 w6 w7"}, {"gates", {{"L0.H1", 0.25}}}});
        if (answer.status == 200) {
          ++served;
        } else if (answer.status == 503 &&
                   answer.headers.find("Retry-After") != std::string::npos) {
          ++refused;
        } else {
          ++other;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(served + refused, 200);
  EXPECT_GT(served, 0);
  EXPECT_EQ(other, 0);
}

}  // namespace
}  // namespace headwise
