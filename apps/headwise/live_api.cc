// How requests are answered.
#include "live_api.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <regex>
#include <utility>

#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "headwise/text/lines.h"
#include "live_jobs.h"

namespace headwise::program {
namespace {

constexpr size_t kMostLines = 512;

Reply reply_with(int status, const Json& json) {
  return {.status = status, .body = std::make_shared<const std::string>(json_text(json))};
}

Json to_json(const Engine::JobStatus& job) {
  Json json = {{"id", job.id},        {"kind", job.kind},   {"state", to_string(job.state)},
               {"done", job.done},    {"total", job.total}, {"what", job.what},
               {"result", job.result}};
  json["error"] = job.error ? error_json(*job.error) : Json();
  return json;
}

bool is_address(const std::string& host) {
  in6_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

std::string in_small_letters(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

/// The name or address of "name", "name:80" or "[::1]:80"; none for what is not of this form.
std::optional<std::string> without_port(const std::string& host) {
  static const std::regex kForm(R"((?:([A-Za-z0-9._-]+)|\[([0-9A-Fa-f:.]+)\])(?::([0-9]{1,5}))?)");
  std::smatch parts;
  if (!std::regex_match(host, parts, kForm)) return std::nullopt;
  if (parts[3].matched && std::stoi(parts[3]) > 65'535) return std::nullopt;
  return parts[1].matched ? in_small_letters(parts[1]) : parts[2].str();
}

LookRequest parse_look(const std::string& body, const Model& model) {
  const nlohmann::json json = parse_json(body, "the request");
  const JsonObject object(json, "the request");
  object.only({"text", "gates"});
  LookRequest request{.text = object.text("text")};
  const auto characters = std::ranges::count_if(
      request.text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  if (characters > Looker::kMostCharacters) {
    throw Error({.what = "the text is too long",
                 .where = "text",
                 .got = fmt::format("{} characters", characters),
                 .expected = fmt::format("at most {}", Looker::kMostCharacters),
                 .hint = "look at a part of it"});
  }
  if (const auto gates = object.optional_object("gates")) {
    for (const std::string& name : gates->names()) request.gates[name] = gates->number(name);
    try {
      for (const auto& [name, value] : request.gates) (void)model.find_heads(name);
    } catch (const Error& error) {
      ErrorDetail detail = error.detail();
      detail.where = "gates";
      detail.hint = "GET /api/model lists the layers and how many heads each has";
      throw Error(detail);
    }
  }
  return request;
}

JobRequest parse_job(const std::string& body) {
  const nlohmann::json json = parse_json(body, "the request");
  const JsonObject object(json, "the request");
  object.only({"kind", "text", "keep", "order"});
  JobRequest request{.kind = object.text("kind"), .text = object.optional_text("text")};
  if (request.kind != "ablate" && request.kind != "plan") {
    object.refuse("kind", "there is no such job", "ablate or plan");
  }
  if (const auto keep = object.optional_number("keep")) {
    if (!(*keep >= 0 && *keep <= 1)) {
      object.refuse("keep", "a share is out of range", "a number from 0 to 1");
    }
    request.keep = *keep;
  }
  if (const auto order = object.optional_text("order")) {
    if (*order != "ablation" && *order != "gradient" && *order != "random") {
      object.refuse("order", "there is no such order", "ablation, gradient or random");
    }
    request.order = *order;
  }
  if (request.text && lines_of(*request.text).size() > kMostLines) {
    throw Error({.what = "the text is too long for the page",
                 .where = "text",
                 .got = fmt::format("{} lines", lines_of(*request.text).size()),
                 .expected = fmt::format("at most {}", kMostLines),
                 .hint = "headwise observe --input FILE takes any number"});
  }
  return request;
}

Reply not_found(const std::string& path) {
  return error_reply(404, {.what = "there is nothing here",
                           .where = path,
                           .expected = "/, /api/model, /api/look or /api/jobs"});
}

Reply not_allowed(const std::string& method, const std::string& path, const char* allow) {
  Reply reply = error_reply(405, {.what = "this method is not for this place",
                                  .where = path,
                                  .got = method,
                                  .expected = allow});
  reply.allow = allow;
  return reply;
}

}  // namespace

Reply error_reply(int status, const ErrorDetail& detail, int retry_after) {
  Reply reply = reply_with(status, {{"error", error_json(detail)}});
  reply.retry_after = retry_after;
  return reply;
}

bool is_loopback(std::string_view host) {
  const std::string name(host);
  in6_addr six = {};
  in_addr four = {};
  if (inet_pton(AF_INET, name.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, name.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return name == "localhost";
}

Names::Names(const std::string& host, std::vector<std::string> others)
    : names_(std::move(others)), any_address_(!is_loopback(host)) {
  names_.push_back(host);
  for (std::string& name : names_) name = in_small_letters(name);
}

/// An address is no name, so nobody can make it lead elsewhere.
bool Names::knows(std::string_view name) const {
  return is_loopback(name) || std::ranges::find(names_, name) != names_.end() ||
         (any_address_ && is_address(std::string(name)));
}

std::optional<ErrorDetail> Names::check_form(const std::vector<std::string>& hosts) {
  // Thousands of letters are no name, and would be too deep for a regex.
  constexpr size_t kLongest = 300;
  if (hosts.size() == 1 && hosts[0].size() <= kLongest && without_port(hosts[0])) {
    return std::nullopt;
  }
  return ErrorDetail{
      .what = "a request names the host that it is for",
      .where = "Host",
      .got = hosts.empty() ? "none" : fmt::format("{}", fmt::join(hosts, ", ")).substr(0, kLongest),
      .expected = "one name or address, and perhaps a port"};
}

std::optional<ErrorDetail> Names::refuse(const std::vector<std::string>& hosts,
                                         const std::vector<std::string>& origins) const {
  if (!knows(*without_port(hosts.front()))) {
    return ErrorDetail{.what = "the server is not known under this name",
                       .where = "Host",
                       .got = hosts.front(),
                       .expected = fmt::format("localhost or {}", names_.back()),
                       .hint = "headwise serve --allow-host NAME allows another name"};
  }
  if (origins.empty() || (origins.size() == 1 && origins[0] == "http://" + hosts[0])) {
    return std::nullopt;
  }
  return ErrorDetail{.what = "another site's page asks",
                     .where = "Origin",
                     .got = fmt::format("{}", fmt::join(origins, ", ")),
                     .expected = "http://" + hosts[0]};
}

LiveApi::LiveApi(const Session& session, std::string page, const Engine::Limits& limits)
    : session_(session),
      looker_(session),
      page_(std::make_shared<const std::string>(std::move(page))),
      engine_(limits) {}

Reply LiveApi::answer(const LiveRequest& request) {
  try {
    return route(request);
  } catch (const Error& error) {
    return error_reply(400, error.detail());
  } catch (const Busy& busy) {
    return error_reply(503, busy.detail, busy.retry_after);
  } catch (const std::bad_alloc&) {
    return error_reply(503, {.what = "out of memory", .hint = "try a shorter text"}, 5);
  } catch (const std::exception& error) {
    return error_reply(500, {.what = error.what()});
  }
}

Reply LiveApi::route(const LiveRequest& request) {
  const auto& [method, path, body, client] = request;
  const bool gets = method == "GET" || method == "HEAD";
  if (path == "/") {
    if (!gets) return not_allowed(method, path, "GET");
    return {.body = page_, .type = "text/html; charset=utf-8"};
  }
  if (path == "/api/model") {
    return gets ? reply_with(200, model()) : not_allowed(method, path, "GET");
  }
  if (path == "/api/look") {
    return method == "POST" ? look(request) : not_allowed(method, path, "POST");
  }
  if (path == "/api/jobs") {
    return method == "POST" ? start_job(request) : not_allowed(method, path, "POST");
  }
  constexpr std::string_view kJob = "/api/jobs/";
  if (!path.starts_with(kJob)) return not_found(path);
  if (!gets && method != "DELETE") return not_allowed(method, path, "GET, DELETE");
  const std::string id = path.substr(kJob.size());
  const auto job = gets ? engine_.find(id) : engine_.cancel(id);
  return job ? reply_with(200, to_json(*job)) : not_found(path);
}

Json LiveApi::model() const {
  const ModelConfig& config = session_.config();
  Json attentions = Json::array();
  for (const AttentionSite& site : session_.model().attentions()) {
    const char* kind = "self";
    if (config.encoder_decoder()) kind = site.side == Side::encoder ? "encoder" : "decoder";
    if (site.kind == AttentionKind::cross) kind = "cross";
    attentions.push_back({{"name", site.name},
                          {"kind", kind},
                          {"heads", site.heads.size()},
                          {"head_names", site.heads}});
  }
  const Tokenizer& tokenizer = *session_.tokenizer();
  const auto mask = tokenizer.special_tokens().mask;
  return {
      {"instance", instance_},
      {"version", HEADWISE_VERSION},
      {"model",
       {{"name", session_.model().name()},
        {"architecture", config.architecture.empty() ? config.model_type : config.architecture}}},
      {"task", looker_.task()},
      {"mask", mask ? Json(tokenizer.token(*mask)) : Json()},
      {"limits", {{"tokens", looker_.most_tokens()}, {"characters", Looker::kMostCharacters}}},
      {"attentions", std::move(attentions)}};
}

Reply LiveApi::look(const LiveRequest& request) {
  const LookRequest wanted = parse_look(request.body, session_.model());
  struct Placed {
    Turns::Place place;
    std::string text{};
  };
  const auto placed = std::make_shared<Placed>(Placed{turns_.take(request.client)});
  engine_.run([&] { placed->text = json_text(looker_.look(wanted)); });
  return {.body = {placed, &placed->text}};
}

Reply LiveApi::start_job(const LiveRequest& request) {
  const JobRequest wanted = parse_job(request.body);
  const std::string id = engine_.start(
      wanted.kind,
      [this, wanted](const Engine::Report& report) { return run_job(session_, wanted, report); },
      request.client);
  return reply_with(202, {{"id", id}});
}

}  // namespace headwise::program
