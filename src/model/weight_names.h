// What the names of tensors in checkpoints are made of. Each family of architectures has its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headwise/kernels/gemm.h"
#include "headwise/model/config.h"

namespace headwise {

/// How a checkpoint stores the projections of queries, keys and values.
enum class ProjectionStorage {
  separate,
  fused,           // one matrix: all queries, all keys, all values
  fused_per_head,  // one matrix: of every head its query, key and value (GPT-NeoX)
};

/// Names inside a layer, after its prefix, without ".weight" and ".bias"; empty: there is none.
struct AttentionNames {
  std::string_view query{}, key{}, value{};  // `query` names the one matrix of fused storage
  std::string_view output{}, norm{};
  std::string_view query_norm{}, key_norm{};
};

struct StackNames {
  std::string_view layer{};  // "encoder.layer.{}.", the braces standing for its number
  AttentionNames self{}, cross{};
  std::string_view up{}, gate{}, glu_up{}, down{};  // `up` alone, or `gate` and `glu_up`
  std::string_view feed_forward_norm{};
  std::string_view final_norm{};
  std::string_view word{}, position{}, relative_bias{};
};

struct WeightNames {
  std::vector<std::string_view> prefixes{};  // of the base model; it may also have been saved bare
  StackNames encoder{}, decoder{};
  std::string_view shared_word{};  // the embedding of both stacks
  std::string_view token_type{}, embedding_norm{}, embedding_projection{};
  ProjectionStorage storage = ProjectionStorage::separate;
  bool transposed = false;  // GPT-2 stores [inputs, outputs]
};

/// One step of an output layer: dense, activation, norm.
struct TaskStep {
  std::string dense{};
  Activation activation = Activation::none;
  std::string norm{};  // or empty
};

enum class TaskRows { all, first, last };

/// An output layer: which rows it reads, and what it does to them.
struct TaskNames {
  TaskRows rows = TaskRows::all;
  std::vector<TaskStep> steps{};
  std::string output{};             // empty: hidden states are the output
  std::string bias{};               // where it is not beside the output's weights
  bool bias_is_buffer = false;      // that one is a row [1, outputs], and not trained (Marian)
  bool has_bias = false;            // in a new model
  bool tied = false;                // may be the input embedding
  bool tied_unless_stored = false;  // also if the config does not tie (T5)
  bool drops_input = false, drops_output = false;  // in training: rows, and what `output` reads
};

}  // namespace headwise
