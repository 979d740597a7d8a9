// Files of ONNX, and that the reader which proves them notices what is wrong with them.
#include "export/onnx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "io/io_testing.h"

namespace headwise::onnx {
namespace {

using testing::HasSubstr;

class OnnxFileTest : public testing::Test {
 protected:
  OnnxFileTest() {
    std::vector<float> numbers(6 * 400);
    std::iota(numbers.begin(), numbers.end(), 1.f);
    const std::vector<TensorToWrite> tensors = {
        {"matrix", Dtype::kF32, {6, 400}, std::as_bytes(std::span(numbers))}};
    write_tensors(temporary_.path() / "weights.safetensors", tensors, {});
  }

  /// x [B, 400] times a matrix that is stored the other way round.
  Graph graph() const {
    const TensorFiles files = TensorFiles::open(temporary_.path() / "weights.safetensors");
    Graph graph("product");
    const Value x = graph.input("x", Type::float32, {"batch", int64_t{400}});
    const Value y = graph.product(x, graph.weight(files, *files.find("matrix"), true));
    graph.node("Relu", {y});  // nobody needs it
    graph.output(graph.add(y, graph.scalar(1.f)), "y", {"batch", int64_t{6}});
    graph.drop_unused();
    return graph;
  }

  std::string complaint(const Graph& graph) const {
    return error_of([&] {
             OnnxProof proof;
             check_graph(graph, file_, proof);
           })
        .got;
  }

  TemporaryFolder temporary_;
  const std::filesystem::path file_ = temporary_.path() / "m.onnx";
};

constexpr int64_t kNoLimit = int64_t{1} << 31;

TEST_F(OnnxFileTest, IsReadAsItWasWritten) {
  const Graph graph = this->graph();
  EXPECT_EQ(graph.nodes.size(), 3u);
  for (const int64_t most : {kNoLimit, int64_t{0}}) {
    write_graph(graph, file_, most);
    OnnxProof proof;
    check_graph(graph, file_, proof);
    EXPECT_EQ(proof.nodes, 3);
    EXPECT_EQ(proof.weights, 1);
    EXPECT_EQ(proof.numbers, 2400);
  }
  EXPECT_EQ(std::filesystem::file_size(data_file(file_)), 2400 * sizeof(float));
}

TEST_F(OnnxFileTest, AnotherWeightIsNoticed) {
  const Graph graph = this->graph();
  write_graph(graph, file_, kNoLimit);
  // The first column begins with 1 and 401.
  const float pair[] = {1, 401}, other[] = {1, 402};
  std::string bytes = contents_of(file_);
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(pair), sizeof pair));
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, sizeof other, reinterpret_cast<const char*>(other), sizeof other);
  temporary_.write("m.onnx", bytes);
  EXPECT_EQ(complaint(graph), "another weight");
}

TEST_F(OnnxFileTest, AnotherDataFileIsNoticed) {
  const Graph graph = this->graph();
  write_graph(graph, file_, 0);
  std::string bytes = contents_of(data_file(file_));
  bytes.back() ^= 1;
  temporary_.write("m.onnx.data", bytes);
  EXPECT_EQ(complaint(graph), "another weight");
  temporary_.write("m.onnx.data", bytes.substr(0, 100));
  EXPECT_EQ(complaint(graph), "values outside the data file");
}

TEST_F(OnnxFileTest, NodesOutOfOrderAreNoticed) {
  Graph graph = this->graph();
  std::swap(graph.nodes[0], graph.nodes[1]);
  write_graph(graph, file_, kNoLimit);
  EXPECT_EQ(complaint(graph), "an input that nothing gave before");
}

TEST_F(OnnxFileTest, WhatIsMissingIsNoticed) {
  Graph graph = this->graph();
  write_graph(graph, file_, kNoLimit);
  graph.output("y", "again", {"batch", int64_t{6}});
  EXPECT_EQ(complaint(graph), "their number");
  temporary_.write("m.onnx", contents_of(file_).substr(0, 1000));
  EXPECT_THAT(error_of([&] {
                OnnxProof proof;
                check_graph(graph, file_, proof);
              }).what,
              HasSubstr("ends within a field"));
}

TEST_F(OnnxFileTest, EqualConstantsAreHeldOnce) {
  Graph graph("constants");
  EXPECT_EQ(graph.scalar(1.f), graph.scalar(1.f));
  EXPECT_NE(graph.scalar(1.f), graph.scalar(int64_t{1}));
  EXPECT_NE(graph.list({1}), graph.scalar(int64_t{1}));
  EXPECT_NE(graph.list({1, 2}), graph.list({2, 1}));
  EXPECT_EQ(graph.initializers.size(), 5u);
}

}  // namespace
}  // namespace headwise::onnx
