// vicinal: which k things are nearest to this one, exactly?
//
//   #include <vicinal/vicinal.hpp>
//
//   std::vector<float> corpus = ..., queries = ...;              // row-major, 128 columns
//   vicinal::Neighbors near = vicinal::knn(
//       vicinal::MatrixView<float>{corpus.data(), 100000, 128},
//       vicinal::MatrixView<float>{queries.data(), 1000, 128},
//       {.k = 10, .metric = vicinal::Metric::cosine});
//   near.id(0, 0), near.distance(0, 0);                          // nearest row of query 0
//   near.certificate.all();                                      // always true: every query is certified
//
// Searched more than once? Prepare once:        vicinal::Corpus c(view, {.metric = ...}); c.knn(queries, {.k = 5});
// The nearest others of every row, a graph:     auto g = vicinal::knn_graph(view, {.k = 15});
//                                               vicinal::symmetrize(g, vicinal::Symmetrize::mutual);
// Everything within a distance:                 auto r = vicinal::range_search(view, queries, 0.3, {.metric = ...});
//                                               r.count(0), r.id(0, 0);
// How much memory and time, before it starts:   vicinal::plan({n, d}, {q, d}, {.k = 10}).text();
// A corpus in parts: give each its .first_id, then vicinal::merge(parts, {.k = 10}); the bits are those of one search.
// Strings instead of rows:                      vicinal::knn(names.view(), typed.view(),
//                                                            {.k = 5, .metric = vicinal::Metric::levenshtein});
// An expensive distance, or a set that is huge: vicinal::PermutationIndex(view, {.metric = vicinal::Metric::dtw})
//                                                   .knn(queries, {.recall = 0.9});
// Features of images, by ratio and both ways:   vicinal::match_pairs(images, vicinal::image_pairs("exhaustive", 500),
//                                                                    {.ratio = 0.8});
// Ground truth of files without number:         vicinal::ground_truth(parts, queries,
//                                                   {.search = {.k = 100}, .tiers = {1000000, 10000000}});
// The answer of another tool:                   vicinal::verify(corpus, queries, claim);
//
// Integers of 16 to 64 bits:                    vicinal::knn(vicinal::exact_elements(rows, "corpus").points(), ...);
//
// Errors are vicinal::Error with a code(). Any k up to n, any n; f32, f64, f16, bf16, u8, i8; the same
// bits on any instruction set, thread count, memory budget and partition.
#pragma once
#include "vicinal/corpus.hpp"
#include "vicinal/device.hpp"
#include "vicinal/elements.hpp"
#include "vicinal/error.hpp"
#include "vicinal/io.hpp"
#include "vicinal/match.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"
#include "vicinal/permutation_index.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/resume.hpp"
#include "vicinal/search.hpp"
#include "vicinal/select.hpp"
#include "vicinal/strings.hpp"
#include "vicinal/truth.hpp"
#include "vicinal/verify.hpp"
