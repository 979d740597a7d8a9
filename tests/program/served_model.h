// headwise serve on a small model, and a client that sends what it is told to.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {

struct HttpAnswer {
  int status = 0;  // 0: none came
  std::string headers{}, body{};

  nlohmann::json json() const { return nlohmann::json::parse(body); }
  nlohmann::json error() const { return json().at("error"); }
};

/// A connection to this machine.
class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("no connection");
    }
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// As much as the other side takes.
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }

  /// Until the other side closes.
  HttpAnswer receive() {
    std::string all;
    char buffer[65536];
    for (ssize_t count; (count = recv(fd_, buffer, sizeof buffer, 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(count));
    }
    const size_t end = all.find("\r\n\r\n");
    if (!all.starts_with("HTTP/1.1 ") || end == std::string::npos) return {};
    return {.status = std::stoi(all.substr(9, 3)),
            .headers = all.substr(0, end + 2),
            .body = all.substr(end + 4)};
  }

 private:
  int fd_;
};

/// A golden model that reads words w5, w6, … , served.
class ServedModel {
 public:
  explicit ServedModel(const std::string& name, const std::vector<std::string>& more = {}) {
    std::filesystem::copy(golden_model_path(name), folder_.path() / name,
                          std::filesystem::copy_options::recursive);
    const auto config = nlohmann::json::parse(contents_of(folder_.path() / name / "config.json"));
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 5; i < config["vocab_size"]; ++i) words += "w" + std::to_string(i) + "\n";
    folder_.write(name + "/vocab.txt", words);
    model_ = (folder_.path() / name).string();
    std::vector<std::string> arguments = {"serve", model_, "--port", "0", "--json", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    program_.emplace(arguments);
    told_ = nlohmann::json::parse(program_->read_line());
    const std::string url = told_["url"];
    port_ = std::stoi(url.substr(url.rfind(':') + 1));
  }

  const std::string& model() const { return model_; }
  const nlohmann::json& told() const { return told_; }
  int port() const { return port_; }
  StartedProgram& program() { return *program_; }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }

  HttpAnswer send(const std::string& bytes) const {
    Client client(port_);
    client.send(bytes);
    return client.receive();
  }

  HttpAnswer ask(const std::string& method, const std::string& path, const std::string& body = "",
                 const std::string& headers = "") const {
    return send(method + " " + path + " HTTP/1.1\r\nHost: " + host() + "\r\n" + headers +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  HttpAnswer get(const std::string& path) const { return ask("GET", path); }
  HttpAnswer post(const std::string& path, const nlohmann::json& body) const {
    return ask("POST", path, body.dump());
  }

 private:
  TemporaryFolder folder_;
  std::string model_;
  std::optional<StartedProgram> program_;
  nlohmann::json told_;
  int port_ = 0;
};

}  // namespace headwise
