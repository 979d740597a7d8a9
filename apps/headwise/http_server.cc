// HTTP with cpp-httplib: it reads requests and writes responses; connections are taken and bounded
// here, since the library waits for each byte anew and has no end of waiting.
//
// A connection has a thread, one request, and a time by which the request is there and the response
// gone. Where there are as many as may be, one that waits for the other side gives way to a new
// one.
#include "http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <httplib.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/core/error.h"

namespace headwise::program {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMostConnections = 256, kBacklog = 512;
constexpr milliseconds kReading{10'000}, kWriting{20'000}, kClosing{1'000}, kStopping{2'000};
constexpr milliseconds kGlance{100};  // how often who waits looks whether all is being stopped
constexpr size_t kMostRead = kMostBody * 2;  // bytes of a request with its headers
constexpr size_t kLongestPath = 256, kLongestName = 64;

/// A file descriptor that is closed.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// A connection whose reading and writing end by a time, whatever the other side does.
class Connection : public httplib::Stream {
 public:
  Connection(Socket socket, std::string address, const std::atomic<bool>& stopping)
      : socket_(std::move(socket)),
        fd_(socket_.fd()),
        address_(std::move(address)),
        stopping_(stopping),
        read_by_(Clock::now() + kReading) {}

  const std::string& address() const { return address_; }
  bool can_give_way() const { return !answering_ && !gave_way_; }
  bool gave_way() const { return gave_way_; }

  /// The request is there and the response is not. Before and after that the other side is waited
  /// for.
  void set_answering(bool yes) { answering_ = yes; }

  /// Ends it for another one. Its thread notices at once.
  void give_way() {
    gave_way_ = true;
    shutdown(fd_, SHUT_RDWR);
  }

  bool is_readable() const override { return at_ < filled_ || wait(POLLIN); }
  bool is_writable() const override { return wait(POLLOUT); }

  ssize_t read(char* to, size_t size) override {
    writes_ = false;
    if (at_ == filled_) {
      if (total_ >= kMostRead) return -1;
      const ssize_t count = when_ready(POLLIN, [&] { return fill(); });
      if (count <= 0) return count;
      at_ = 0;
      filled_ = static_cast<size_t>(count);
      total_ += filled_;
    }
    const size_t count = std::min(size, filled_ - at_);
    std::copy_n(buffer_.data() + at_, count, to);
    at_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, size_t size) override {
    if (!std::exchange(writes_, true)) write_by_ = Clock::now() + kWriting;
    return when_ready(POLLOUT, [&] { return send(fd_, from, size, MSG_NOSIGNAL); });
  }

  /// What was sent arrives: a socket that is closed with bytes unread takes back what is under way.
  void finish() {
    shutdown(fd_, SHUT_WR);
    read_by_ = Clock::now() + kClosing;
    for (size_t drained = 0; drained < 16 * kMostRead;) {
      const ssize_t count = when_ready(POLLIN, [&] { return fill(); });
      if (count <= 0) return;
      drained += static_cast<size_t>(count);
    }
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return fd_; }

 private:
  bool wait(short event) const {
    while (true) {
      if (gave_way_ || (stopping_ && event == POLLIN)) return false;
      if (stopping_) write_by_ = std::min(write_by_, Clock::now() + kStopping);
      const Clock::time_point end = event == POLLIN ? read_by_ : write_by_;
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      if (left <= milliseconds(0)) return false;
      pollfd one = {.fd = fd_, .events = event, .revents = 0};
      const int ready = poll(&one, 1, static_cast<int>(std::min(left, kGlance).count()));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
  }

  template <class Call>
  ssize_t when_ready(short event, const Call& call) const {
    while (wait(event)) {
      const ssize_t count = call();
      if (count >= 0 || (errno != EAGAIN && errno != EINTR)) return count;
    }
    return -1;
  }

  ssize_t fill() { return recv(fd_, buffer_.data(), buffer_.size(), 0); }

  Socket socket_;
  int fd_;
  std::string address_;
  const std::atomic<bool>& stopping_;
  std::atomic<bool> answering_ = false, gave_way_ = false;
  Clock::time_point read_by_;
  mutable Clock::time_point write_by_;
  bool writes_ = false;  // since the last reading: "go on" is written before the body is read
  std::array<char, 4096> buffer_;
  size_t at_ = 0, filled_ = 0, total_ = 0;
};

thread_local Connection* own_connection = nullptr;  // a connection has a thread

std::string reason_of(int error) { return std::generic_category().message(error); }

Socket listen_on(const std::string& host, int port) {
  const auto refuse = [&](const std::string& reason) {
    return Error({.what = "the address cannot be listened on",
                  .where = fmt::format("--host {} --port {}", host, port),
                  .got = reason,
                  .hint = "--port 0 takes any port that is free"});
  };
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (failed != 0) throw refuse(gai_strerror(failed));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Socket made(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (made.fd() >= 0 && bind(made.fd(), at->ai_addr, at->ai_addrlen) == 0 &&
        listen(made.fd(), kBacklog) == 0) {
      return made;
    }
    error = errno;
  }
  throw refuse(reason_of(error));
}

int port_of(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

/// Whose connection it is: an address, of IPv6 the network, which has many addresses.
std::string address_of(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (peer.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(peer);
    return inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
  }
  if (peer.ss_family != AF_INET6) return {};
  in6_addr six = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    return inet_ntop(AF_INET, &six.s6_addr[12], text.data(), text.size());
  }
  if (!IN6_IS_ADDR_LOOPBACK(&six)) std::fill_n(&six.s6_addr[8], 8, uint8_t{0});
  return inet_ntop(AF_INET6, &six, text.data(), text.size());
}

std::vector<std::string> values_of(const httplib::Request& request, const char* header) {
  std::vector<std::string> values;
  const auto [begin, end] = request.headers.equal_range(header);
  for (auto at = begin; at != end; ++at) values.push_back(at->second);
  return values;
}

void put(Reply reply, httplib::Response& response) {
  response.status = reply.status;
  if (reply.retry_after > 0) {
    response.set_header("Retry-After", std::to_string(reply.retry_after));
  }
  if (!reply.allow.empty()) response.set_header("Allow", reply.allow);
  // The body is shared, and stays until it is written.
  response.set_content_provider(
      reply.body->size(), reply.type,
      [body = reply.body](size_t offset, size_t length, httplib::DataSink& sink) {
        return sink.write(body->data() + offset, length);
      });
}

const httplib::Headers& always() {
  static const httplib::Headers headers = {
      {"Cache-Control", "no-store"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
       "img-src data: blob:; font-src data:; connect-src 'self'; base-uri 'none'; "
       "form-action 'none'; frame-ancestors 'none'"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"X-Content-Type-Options", "nosniff"}};
  return headers;
}

}  // namespace

class HttpServer::Impl : private httplib::Server {
 public:
  Impl(const std::string& host, int port, Names names, Answer answer)
      : names_(std::move(names)), answer_(std::move(answer)), listening_(listen_on(host, port)) {
    svr_sock_ = listening_.fd();  // or responses would be cut, as if it were closed
    set_default_headers(always());
    set_pre_routing_handler([this](const auto& request, auto& response) {
      const std::optional<Reply> refused = refuse(request);
      if (refused) put(*refused, response);
      return refused ? HandlerResponse::Handled : HandlerResponse::Unhandled;
    });
    Get("/.*", [this](const auto& request, auto& response) {
      put(reply_to(live_request(request)), response);
    });
    const HandlerWithContentReader with_body = [this](const auto& request, auto& response,
                                                      const auto& reader) {
      put(read_and_answer(request, reader), response);
    };
    Post("/.*", with_body);
    Delete("/.*", with_body);
    // What the library itself refuses: requests that are none.
    set_error_handler(HandlerWithResponse([](const auto&, auto& response) {
      if (response.content_length_ > 0) return HandlerResponse::Unhandled;
      put(error_reply(response.status, {.what = "this is no request that can be answered"}),
          response);
      return HandlerResponse::Handled;
    }));
    set_exception_handler([](const auto&, auto& response, const auto&) {
      put(error_reply(500, {.what = "the request could not be answered"}), response);
    });
    taking_ = std::thread([this] { take_connections(); });
  }

  ~Impl() override { stop(); }

  int port() const { return port_of(listening_); }

  void stop() {
    stopping_ = true;
    if (taking_.joinable()) taking_.join();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return connections_.empty(); });
  }

 private:
  /// Before anything is read but the headers.
  std::optional<Reply> refuse(const httplib::Request& request) const {
    if (const auto detail = Names::check_form(values_of(request, "Host"))) {
      return error_reply(400, *detail);
    }
    if (const auto detail =
            names_.refuse(values_of(request, "Host"), values_of(request, "Origin"))) {
      return error_reply(403, *detail);
    }
    if (request.path.size() > kLongestPath || !request.path.starts_with('/')) {
      return error_reply(404, {.what = "there is nothing here",
                               .got = fmt::format("a path of {} bytes", request.path.size())});
    }
    const bool known = request.method == "GET" || request.method == "HEAD" ||
                       request.method == "POST" || request.method == "DELETE";
    if (!known) return reply_to(live_request(request));  // 404 or 405
    if (request.is_multipart_form_data()) {
      return error_reply(400, {.what = "a form was sent", .expected = "JSON"});
    }
    return refuse_length(values_of(request, "Content-Length"),
                         values_of(request, "Transfer-Encoding"));
  }

  /// Requests whose end is not told, or told in two ways: others on the way might see another end.
  static std::optional<Reply> refuse_length(const std::vector<std::string>& lengths,
                                            const std::vector<std::string>& codings) {
    const auto refuse = [](const char* where, const std::vector<std::string>& got,
                           const char* expected) {
      return error_reply(400, {.what = "the length of the request is not clear",
                               .where = where,
                               .got = fmt::format("{}", fmt::join(got, ", ")).substr(0, 100),
                               .expected = expected});
    };
    if (!codings.empty() && !lengths.empty()) {
      return refuse("Transfer-Encoding", codings, "this or Content-Length");
    }
    if (codings.size() > 1 || (codings.size() == 1 && codings[0] != "chunked")) {
      return refuse("Transfer-Encoding", codings, "chunked");
    }
    if (lengths.empty()) return std::nullopt;
    const std::string& length = lengths.front();
    if (lengths.size() > 1 || length.empty() ||
        length.find_first_not_of("0123456789") != std::string::npos) {
      return refuse("Content-Length", lengths, "one number of bytes");
    }
    if (length.size() > 10 || std::atoll(length.c_str()) > static_cast<long long>(kMostBody)) {
      return too_large();
    }
    return std::nullopt;
  }

  static Reply too_large() {
    return error_reply(413, {.what = "the request is too large",
                             .expected = fmt::format("at most {} bytes", kMostBody)});
  }

  Reply read_and_answer(const httplib::Request& request, const httplib::ContentReader& read) const {
    std::string body;
    bool large = false;
    const bool whole = read([&](const char* data, size_t size) {
      large = body.size() + size > kMostBody;
      if (!large) body.append(data, size);
      return !large;
    });
    if (large) return too_large();
    if (!whole) return error_reply(400, {.what = "the request did not arrive whole"});
    return reply_to(live_request(request, std::move(body)));
  }

  /// Clients are addresses. On this machine all have one, so that each page has a name of its own.
  static LiveRequest live_request(const httplib::Request& request, std::string body = "") {
    LiveRequest result{.method = request.method,
                       .path = request.path,
                       .body = std::move(body),
                       .client = request.remote_addr};
    if (is_loopback(request.remote_addr)) {
      result.client += ' ' + request.get_header_value("Headwise-Page").substr(0, kLongestName);
    }
    return result;
  }

  Reply reply_to(const LiveRequest& request) const {
    own_connection->set_answering(true);
    Reply reply = answer_(request);
    own_connection->set_answering(false);
    return reply;
  }

  void take_connections() {
    while (!stopping_) {
      pollfd one = {.fd = listening_.fd(), .events = POLLIN, .revents = 0};
      if (poll(&one, 1, static_cast<int>(kGlance.count())) <= 0) continue;
      sockaddr_storage peer = {};
      socklen_t size = sizeof peer;
      Socket socket(accept4(listening_.fd(), reinterpret_cast<sockaddr*>(&peer), &size,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.fd() < 0) {
        // Too many open files, or a connection that is gone again.
        if (errno != EAGAIN && errno != EINTR) std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      try {
        take(std::move(socket), address_of(peer));
      } catch (const std::exception&) {  // no memory, no more threads: others may come later
      }
    }
    listening_ = Socket();
  }

  /// Connections in the order in which they came. One that gave way does not count.
  using Connections = std::list<std::unique_ptr<Connection>>;

  /// Room for one of this address, or none. The oldest of those that wait for the other side gives
  /// way, of the address that has most connections.
  bool make_room() {
    std::map<std::string, int> counts;
    int all = 0;
    for (const auto& one : connections_) {
      if (one->gave_way()) continue;
      ++all;
      ++counts[one->address()];
    }
    if (all < kMostConnections) return std::ssize(connections_) < 2 * kMostConnections;
    Connection* oldest = nullptr;
    for (const auto& one : connections_) {
      if (!one->can_give_way()) continue;
      if (oldest == nullptr || counts[one->address()] > counts[oldest->address()]) {
        oldest = one.get();
      }
    }
    if (oldest == nullptr) return false;
    oldest->give_way();
    return true;
  }

  /// Throws if there is no memory, or no thread: the connection is closed then.
  void take(Socket socket, std::string address) {
    std::unique_lock lock(mutex_);
    // Those that are told to give way end soon; meanwhile others wait in the backlog.
    if (!ended_.wait_for(lock, kGlance, [&] { return make_room(); })) return turn_away(socket);
    connections_.push_back(
        std::make_unique<Connection>(std::move(socket), std::move(address), stopping_));
    const auto own = std::prev(connections_.end());
    try {
      std::thread([this, own] {
        try {
          serve(**own);
        } catch (const std::exception&) {  // no memory: the connection is closed, the server stays
        }
        const std::lock_guard ending(mutex_);
        connections_.erase(own);
        ended_.notify_all();
      }).detach();
    } catch (...) {
      connections_.erase(own);
      throw;
    }
  }

  void serve(Connection& connection) {
    own_connection = &connection;
    process(connection, [&](httplib::Request& request) {
      request.remote_addr = connection.address();
      request.ranges.clear();                    // many of them would be many copies
      request.headers.erase("Accept-Encoding");  // to compress takes longer than to send
    });
    connection.finish();
  }

  /// Later versions of the library want to be told the addresses.
  template <class Setup>
  void process(Connection& connection, const Setup& setup) {
    bool closed = false;
    if constexpr (requires { this->process_request(connection, true, closed, setup); }) {
      this->process_request(connection, true, closed, setup);
    } else {
      this->process_request(connection, "", 0, "", 0, true, closed, setup);
    }
  }

  /// Without waiting: this is the thread that takes connections.
  static void turn_away(const Socket& socket) {
    const Reply reply = error_reply(503, {.what = "too many connections",
                                          .expected = fmt::format("at most {}", kMostConnections),
                                          .hint = "try again in a moment"});
    const std::string response = fmt::format(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
        "Retry-After: 1\r\nConnection: close\r\n\r\n{}",
        reply.type, reply.body->size(), *reply.body);
    (void)send(socket.fd(), response.data(), response.size(), MSG_NOSIGNAL);
    shutdown(socket.fd(), SHUT_WR);
    // What the other side has sent by now is read, or closing would take the response back.
    std::array<char, 4096> rest;
    for (size_t drained = 0; drained < kMostRead; drained += rest.size()) {
      if (recv(socket.fd(), rest.data(), rest.size(), 0) <= 0) break;
    }
  }

  Names names_;
  Answer answer_;
  Socket listening_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  Connections connections_;
  std::thread taking_;
};

HttpServer::HttpServer(const std::string& host, int port, Names names, Answer answer)
    : impl_(std::make_unique<Impl>(host, port, std::move(names), std::move(answer))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace headwise::program
