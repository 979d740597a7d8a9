// Trains a copy of a model's folder.
#include "headwise/prune/recover.h"

#include <memory>

#include "io/folder_aside.h"
#include "model/model_source.h"
#include "prune/trained_folder.h"

namespace headwise {

Model recover(const Model& model, const Model& teacher, const EvaluationSet& set,
              const FineTuneOptions& options, const std::filesystem::path& out) {
  if (!out.empty()) check_outside(model.folder(), out);
  const std::shared_ptr<FolderAside> aside =
      out.empty() ? temporary_folder() : std::make_shared<FolderAside>(out);
  copy_files(model.folder(), aside->path());
  TrainedFolder trained(aside->path(), set, model.load_options());
  trained.learn(teacher, options);
  trained.write();
  Model recovered = read_model(aside->path(), model.load_options());
  ModelSource& source = ModelSource::of(recovered);
  if (out.empty()) {
    source.keep(aside);
    source.set_name(model.name());
  } else {
    aside->become_out();
    source.moved_to(out);
  }
  return recovered;
}

}  // namespace headwise
