// headwise construct: a program of select and aggregate as the weights of a model.
#include "headwise/construct/construct.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "command.h"
#include "json_writer.h"
#include "options.h"

namespace headwise::program {
namespace {

struct ConstructArgs {
  std::string program{};
  std::vector<std::string> alphabet{};
  std::optional<int64_t> length{};
  ConstructOptions construct{};
};

std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", grouped(count), what, count == 1 ? "" : "s");
}

std::string construction_text(const Program& program, const Construction& made,
                              const std::string& folder) {
  std::string text = fmt::format(
      "{}: {}, {}, {} columns, {} in a feed-forward layer; {}\n\n", program.name(),
      counted(std::ssize(made.layers), "layer"), counted(made.heads(), "head"), grouped(made.width),
      counted(made.intermediate, "unit"), counted(made.parameters, "parameter"));
  for (size_t layer = 0; layer < made.layers.size(); ++layer) {
    const ConstructedLayer& of = made.layers[layer];
    for (size_t h = 0; h < of.heads.size(); ++h) {
      text += fmt::format("  {:<8}{}\n", fmt::format("L{}.H{}", layer, h), of.heads[h]);
    }
    for (const std::string& part : of.feed_forward) {
      text += fmt::format("  {:<8}{}\n", fmt::format("L{} ffn", layer), part);
    }
  }
  if (folder.empty()) return text + "\n-o MODEL writes the model.\n";
  text += fmt::format("\nVerified: {}{}; each of {} has the label that the program gives.\n",
                      made.check.all ? "all " : "", counted(made.check.texts, "text"),
                      counted(made.check.tokens, "token"));
  if (made.check.refused > 0) {
    text += fmt::format("The program has no answer for {} more.\n",
                        counted(made.check.refused, "text"));
  }
  const std::string& first = program.alphabet().front();
  const std::string& last = program.alphabet().back();
  return text +
         fmt::format("Run it: headwise run {} --text \"{} {} {}\"\n", folder, first, last, first);
}

std::string as_json(const Program& program, const Construction& made, const std::string& folder) {
  JsonWriter json;
  json.begin_object();
  json.field("program", program.name());
  json.key("folder");
  folder.empty() ? json.null() : json.value(folder);
  json.field("alphabet", program.alphabet());
  json.field("length", program.length());
  json.field("layers", made.layers.size());
  json.field("heads", made.heads());
  json.field("most_heads", made.most_heads());
  json.field("hidden_size", made.width);
  json.field("intermediate_size", made.intermediate);
  json.field("parameters", made.parameters);
  json.field("labels", made.labels);
  json.key("parts");
  json.begin_array();
  for (const ConstructedLayer& layer : made.layers) {
    json.begin_object();
    json.field("heads", layer.heads);
    json.field("feed_forward", layer.feed_forward);
    json.end_object();
  }
  json.end_array();
  if (!folder.empty()) {
    json.key("verified");
    json.begin_object();
    json.field("texts", made.check.texts);
    json.field("all", made.check.all);
    json.field("tokens", made.check.tokens);
    json.field("different", made.check.different);
    json.field("refused", made.check.refused);
    json.end_object();
  }
  json.end_object();
  return json.take();
}

void construct_model(ConstructArgs args, CommonOptions common) {
  const std::string folder = std::exchange(common.out, "");
  args.construct.seed = common.seed;
  const Program program =
      Program::load(args.program, {.length = args.length, .alphabet = args.alphabet});
  const Construction made = folder.empty() ? plan_construction(program, args.construct)
                                           : construct(program, args.construct, folder);
  write_output(common, common.json ? as_json(program, made, folder)
                                   : construction_text(program, made, folder));
}

std::string known_programs_text() {
  std::string text;
  for (const KnownProgram& program : known_programs()) {
    text += fmt::format("  {:<15}{}\n", program.name, program.description);
  }
  return text;
}

}  // namespace

void add_construct(CLI::App& app, CommonOptions& common) {
  const auto args = std::make_shared<ConstructArgs>();
  CLI::App& command = add_command(
      app, "construct", "A program of select and aggregate (RASP) as the weights of a model",
      fmt::format("PROGRAM is a file, see docs/construct.md, or one of\n{}\n"
                  "-o is the folder of the model: all other commands read it. Without it, nothing\n"
                  "but what the program compiles into is shown.\n\n"
                  "Example:\n"
                  "  headwise construct reverse -o ./reverse\n"
                  "  headwise run ./reverse --text \"a b c\"",
                  known_programs_text()),
      common, [args, &common] { construct_model(*args, common); });
  command.add_option("PROGRAM", args->program, "A file, or the name of a program")
      ->required()
      ->type_name("");
  command
      .add_option("--length", args->length,
                  "The longest text, in tokens; default: what the program says")
      ->check(whole_number(1))
      ->type_name("N");
  command.add_option("--alphabet", args->alphabet, "The tokens; default: what the program says")
      ->type_name("TOKEN...");
  command
      .add_option("--max-heads", args->construct.max_heads,
                  "At most so many heads in a layer; default: any number")
      ->check(whole_number(1))
      ->type_name("H");
}

}  // namespace headwise::program
