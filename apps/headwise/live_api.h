// What headwise serve answers: requests to answers, without sockets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine.h"
#include "headwise/core/error.h"
#include "inputs.h"
#include "look.h"
#include "turns.h"

namespace headwise::program {

inline constexpr size_t kMostBody = 64 << 10;  // bytes of a request

struct LiveRequest {
  std::string method{}, path{}, body{};
  std::string client{};  // who asks, for fair turns
};

struct Reply {
  int status = 200;
  std::shared_ptr<const std::string> body{};
  std::string type = "application/json";
  std::string allow{};  // of 405: the methods that there are
  int retry_after = 0;  // seconds; 0: is not said
};

/// {"error": …}
Reply error_reply(int status, const ErrorDetail& detail, int retry_after = 0);

/// Which names the server answers to: a page of another site cannot make a browser ask it, neither
/// as that site nor under a name that it makes lead here.
class Names {
 public:
  /// `host` is what the server listens on; `others` are names that lead there.
  Names(const std::string& host, std::vector<std::string> others);

  /// What is wrong with the form of a request's Host, or nothing: it has one, NAME or NAME:PORT.
  static std::optional<ErrorDetail> check_form(const std::vector<std::string>& hosts);

  /// What is wrong with a request's Host, of the right form, and its Origin, or nothing. No Origin:
  /// it is of no page.
  std::optional<ErrorDetail> refuse(const std::vector<std::string>& hosts,
                                    const std::vector<std::string>& origins) const;

 private:
  bool knows(std::string_view name) const;

  std::vector<std::string> names_;
  bool any_address_;  // every address is as good as another
};

bool is_loopback(std::string_view host);

class LiveApi {
 public:
  LiveApi(const Session& session, std::string page, const Engine::Limits& limits);

  /// Any number of threads may ask at once.
  Reply answer(const LiveRequest& request);

  const std::string& instance() const { return instance_; }
  const std::string& task() const { return looker_.task(); }
  void stop() {
    turns_.stop();
    engine_.stop();
  }

 private:
  Reply route(const LiveRequest& request);
  Json model() const;
  Reply look(const LiveRequest& request);
  Reply start_job(const LiveRequest& request);

  Session session_;
  Looker looker_;
  std::shared_ptr<const std::string> page_;
  std::string instance_ = random_id();
  // An answer may have megabytes, and who asked may be slow to take it: it has a place until then.
  Turns turns_{{}};
  Engine engine_;  // the last one: what it works with outlives it
};

}  // namespace headwise::program
