// Graphs as sparse matrices: what scipy.sparse.load_npz and MatrixMarket readers find in the files.
#include "files.hpp"

namespace vicinal::test {
namespace {

class Graph : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  TemporaryDirectory directory_;
};

/// Three rows of two: a zero distance, a missing entry, ids out of order.
Neighbors small(DistanceType type) {
  Neighbors graph(3, 2, type, true);
  const NeighborsView view = graph.view();
  const std::int64_t ids[] = {2, 1, 0, -1, 0, 1};
  const double distances[] = {0, 0.1, 1, 9, 0, 2.5};
  for (int i = 0; i < 6; ++i) {
    view.ids[i] = ids[i];
    if (type == DistanceType::f64) static_cast<double*>(view.distances)[i] = distances[i];
    else if (type == DistanceType::u32) static_cast<std::uint32_t*>(view.distances)[i] = static_cast<std::uint32_t>(i);
    else static_cast<float*>(view.distances)[i] = static_cast<float>(distances[i]);
  }
  for (int i = 0; i < 3; ++i) view.counts[i] = i == 1 ? 1 : 2;
  return graph;
}

/// The contents of a stored member.
std::string member(const std::string& zip, const std::string& name) {
  const std::size_t at = zip.find("PK\x03\x04");
  for (std::size_t header = at; header != std::string::npos; header = zip.find("PK\x03\x04", header + 4)) {
    const auto u16 = [&](std::size_t i) {
      return static_cast<unsigned char>(zip[header + i]) + 256u * static_cast<unsigned char>(zip[header + i + 1]);
    };
    if (zip.substr(header + 30, u16(26)) != name) continue;
    std::uint32_t size;
    std::memcpy(&size, zip.data() + header + 22, 4);
    return zip.substr(header + 30 + u16(26) + u16(28), size);
  }
  return "";
}

TEST_F(Graph, IsWhatScipyLoads) {
  write_graph(file("g.npz"), small(DistanceType::f32));
  const std::string zip = slurp(file("g.npz"));
  EXPECT_EQ(member(zip, "indices.npy"), npy("<i4", "(5,)", raw(std::vector<std::int32_t>{2, 1, 0, 0, 1})));
  EXPECT_EQ(member(zip, "indptr.npy"), npy("<i4", "(4,)", raw(std::vector<std::int32_t>{0, 2, 3, 5})));
  EXPECT_EQ(member(zip, "data.npy"), npy("<f4", "(5,)", raw(std::vector<float>{0, 0.1f, 1, 0, 2.5f})));
  EXPECT_EQ(member(zip, "shape.npy"), npy("<i8", "(2,)", raw(std::vector<std::int64_t>{3, 3})));
  EXPECT_EQ(member(zip, "format.npy"), npy("|S3", "()", "csr"));
}

TEST_F(Graph, KeepsTheTypeOfItsDistances) {
  write_graph(file("g.npz"), small(DistanceType::f64));
  EXPECT_EQ(member(slurp(file("g.npz")), "data.npy"), npy("<f8", "(5,)", raw(std::vector<double>{0, 0.1, 1, 0, 2.5})));
  write_graph(file("g.npz"), small(DistanceType::u32));
  EXPECT_EQ(member(slurp(file("g.npz")), "data.npy"),
            npy("<u4", "(5,)", raw(std::vector<std::uint32_t>{0, 1, 2, 4, 5})));
}

TEST_F(Graph, IsTextForMatrixMarket) {
  write_graph(file("g.mtx"), small(DistanceType::f32));
  EXPECT_EQ(slurp(file("g.mtx")),
            "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 3 0\n1 2 0.1\n2 1 1\n3 1 0\n3 2 2.5\n");
  write_graph(file("g.mtx"), small(DistanceType::u32));
  EXPECT_EQ(slurp(file("g.mtx")),
            "%%MatrixMarket matrix coordinate integer general\n3 3 5\n1 3 0\n1 2 1\n2 1 2\n3 1 4\n3 2 5\n");
}

TEST_F(Graph, OfListsWithoutGapsIsTheSame) {
  const Neighbors graph = [] {
    Neighbors g(4, 3, DistanceType::f32, false);
    for (int i = 0; i < 12; ++i) {
      g.view().ids[i] = (i / 3 + 1 + i % 3) % 4;
      static_cast<float*>(g.view().distances)[i] = static_cast<float>(i);
    }
    return g;
  }();
  write_graph(file("a.npz"), graph);
  const std::string zip = slurp(file("a.npz"));
  EXPECT_EQ(member(zip, "indptr.npy"), npy("<i4", "(5,)", raw(std::vector<std::int32_t>{0, 3, 6, 9, 12})));
  EXPECT_EQ(member(zip, "indices.npy"),
            npy("<i4", "(12,)", raw(std::vector<std::int32_t>{1, 2, 3, 2, 3, 0, 3, 0, 1, 0, 1, 2})));
  EXPECT_EQ(graph.id(0, 0), 1) << "the graph itself is as it was";
}

TEST_F(Graph, GoesToFormatsOfListsAsAnyResult) {
  const Neighbors graph = small(DistanceType::f32);
  write_graph(file("g.ivecs"), graph, file("d.fvecs"));
  expect_same(read_result(file("g.ivecs"), file("d.fvecs")), graph, true);
  write_graph(file("g.csv"), graph);
  expect_same(read_result(file("g.csv")), graph, true);
}

TEST_F(Graph, OfNothing) {
  write_graph(file("g.npz"), Neighbors(0, 5, DistanceType::f32, false));
  EXPECT_EQ(member(slurp(file("g.npz")), "indptr.npy"), npy("<i4", "(1,)", raw(0)));
  write_graph(file("g.mtx"), CsrNeighbors());
  EXPECT_EQ(slurp(file("g.mtx")), "%%MatrixMarket matrix coordinate real general\n0 0 0\n");
}

TEST_F(Graph, IsRefusedWhereItDoesNotFit) {
  const Neighbors graph = small(DistanceType::f32);
  expect_error(ErrorCode::invalid_argument, "row 0, rank 1: id 3 is no row of a graph of 2 rows",
               [&] { write_graph(file("g.npz"), make_neighbors(2, 4, DistanceType::f32)); });
  expect_error(ErrorCode::invalid_argument, "holds the distances itself",
               [&] { write_graph(file("g.npz"), graph, file("d.npy")); });
  expect_error(ErrorCode::unsupported, ".ivecs is not for graphs; vicinal writes graphs to .npz, .mtx",
               [&] { write_graph(file("g.ivecs"), CsrNeighbors()); });
  expect_error(ErrorCode::unsupported, "unknown suffix \".xyz\"; vicinal writes graphs to .npy, .npz, .ivecs",
               [&] { check_writable(file("g.xyz"), "", ResultKind::graph); });
  expect_error(ErrorCode::unsupported, ".fvecs is not for graphs",
               [&] { check_writable(file("g.fvecs"), "", ResultKind::graph); });
  check_writable(file("g.mtx"), "", ResultKind::graph);
  check_writable(file("g.mtx"), "", ResultKind::sparse_graph);
  check_writable(file("g.ivecs"), file("d.fbin"), ResultKind::graph);
  EXPECT_EQ(directory_.entries(), 0u);
}

}  // namespace
}  // namespace vicinal::test
