// headwise serve: the page, live, with the model behind it.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "command.h"
#include "headwise/io/json_text.h"
#include "headwise/report/report.h"
#include "http_server.h"
#include "live_api.h"
#include "observe_job.h"
#include "options.h"

namespace headwise::program {
namespace {

struct ServeOptions {
  InputOptions input{};
  std::string study{}, host = "127.0.0.1";
  int port = 8642;
  std::vector<std::string> names{};
};

std::string url_of(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("http://{}:{}/", host, port)
                                             : fmt::format("http://[{}]:{}/", host, port);
}

/// SHA-256 of the weights that a study is of; empty if it does not say.
std::string studied_weights(const std::string& data) {
  const auto json = nlohmann::json::parse(data);
  for (const char* part : {"evidence", "verdict"}) {
    const auto at = nlohmann::json::json_pointer(fmt::format("/{}/model/sha256", part));
    if (json.contains(at) && json[at].is_string()) return json[at].get<std::string>();
  }
  return {};
}

void serve(const ServeOptions& options, const CommonOptions& common) {
  const std::string data = options.study.empty() ? "null" : report_data(options.study);
  const Session session(options.input);
  const std::string studied = studied_weights(data);
  if (!studied.empty() && studied != session.model().hash(throw_if_interrupted)) {
    log_info(common,
             "the study is of a model with other weights: its roles and numbers may not fit");
  }
  LiveApi api(session, report_page(data, true), {});
  HttpServer server(options.host, options.port, Names(options.host, options.names),
                    [&](const LiveRequest& request) { return api.answer(request); });
  if (!is_loopback(options.host)) {
    log_info(common, "whoever reaches this machine can use the page: there is no password");
  }
  const std::string url = url_of(options.host, server.port());
  write_output(common,
               common.json
                   ? json_text({{"url", url}, {"instance", api.instance()}, {"task", api.task()}})
                   : fmt::format("{} is at {}\nCtrl-C ends it\n", session.model().name(), url));
  while (!was_interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  api.stop();
  server.stop();
}

}  // namespace

void add_serve(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App& command = add_command(
      app, "serve", "The page, live: type a text, switch heads off, see what changes",
      "STUDY is a folder that headwise study left; without it the page shows the model alone.\n"
      "Only this machine can reach the page unless --host names another address.\n\n"
      "Example:\n"
      "  headwise serve ./minilm study",
      common, [options, &common] { serve(*options, common); });
  Options declare(command);
  declare.model("MODEL", options->input.model);
  declare.argument("STUDY", options->study, "The folder of a study");
  declare.add("--port", options->port, "P", "Where to listen; 0: any free port; default: 8642",
              whole_number(0, 65535));
  declare.add("--host", options->host, "ADDRESS",
              "The address to listen on; default: 127.0.0.1, this machine alone");
  declare.list("--allow-host", options->names, "NAME",
               "A name by which browsers reach another address; may be repeated");
  declare.allow_nonfinite(options->input.allow_nonfinite);
}

}  // namespace headwise::program
