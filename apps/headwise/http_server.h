// Hands requests that come over HTTP to whoever answers them, within bounds: connections, bytes and
// time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "live_api.h"

namespace headwise::program {

class HttpServer {
 public:
  using Answer = std::function<Reply(const LiveRequest& request)>;

  /// Listens. Port 0: any that is free. Throws Error if the address cannot be had.
  HttpServer(const std::string& host, int port, Names names, Answer answer);
  ~HttpServer();  // stops

  int port() const;

  /// Takes no more connections, and waits for those that there are: they end soon.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headwise::program
