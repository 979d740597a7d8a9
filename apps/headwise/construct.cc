// headwise construct: a program of select and aggregate as the weights of a model.
#include "headwise/construct/construct.h"

#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "headwise/io/json_text.h"
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
  Json json = {{"program", program.name()},
               {"folder", folder.empty() ? Json() : Json(folder)},
               {"alphabet", program.alphabet()},
               {"length", program.length()},
               {"layers", made.layers.size()},
               {"heads", made.heads()},
               {"most_heads", made.most_heads()},
               {"hidden_size", made.width},
               {"intermediate_size", made.intermediate},
               {"parameters", made.parameters},
               {"labels", made.labels}};
  for (const ConstructedLayer& layer : made.layers) {
    json["parts"].push_back({{"heads", layer.heads}, {"feed_forward", layer.feed_forward}});
  }
  if (!folder.empty()) {
    json["verified"] = {{"texts", made.check.texts},
                        {"all", made.check.all},
                        {"tokens", made.check.tokens},
                        {"different", made.check.different},
                        {"refused", made.check.refused}};
  }
  return json_text(json);
}

void construct_model(const ConstructArgs& args, const CommonOptions& common) {
  ConstructOptions options = args.construct;
  options.seed = common.seed;
  const Program program =
      Program::load(args.program, {.length = args.length, .alphabet = args.alphabet});
  const Construction made = common.out.empty() ? plan_construction(program, options)
                                               : construct(program, options, common.out);
  print_result(common.json ? as_json(program, made, common.out)
                           : construction_text(program, made, common.out));
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
                  "  headwise construct reverse -o ./reverse",
                  known_programs_text()),
      common, [args, &common] { construct_model(*args, common); });
  Options declare(command);
  declare.argument("PROGRAM", args->program, "A file, or the name of a program")->required();
  declare.add("--length", args->length, "N",
              "The longest text, in tokens; default: what the program says", whole_number(1));
  declare.list("--token", args->alphabet, "TOKEN",
               "A token of the alphabet, once for each; default: what the program says");
  declare.add("--max-heads", args->construct.max_heads, "H",
              "At most so many heads in a layer; default: any number", whole_number(1));
}

}  // namespace headwise::program
