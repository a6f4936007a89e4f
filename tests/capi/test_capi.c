/* The C face as a C99 program sees it: values, every kind of argument that is refused, and tensors that free themselves.
 * Usage: test_capi FOLDER. Prints what fails; the exit status is the number of failures, at most 100. */
#include "expect.h"

/* test_corpora.c; the number of failures. */
int corpora(const char *folder);

static void knows_itself(void) {
  const char *text = NULL;
  CHECK(strlen(vicinal_version()) >= 5);
  OK(vicinal_info(&text));
  CHECK(strstr(text, vicinal_version()) != NULL && strstr(text, "\ncpu: ") != NULL);
  EXPECT(vicinal_info(NULL), VICINAL_INVALID_ARGUMENT, "text is null");
  CHECK(vicinal_last_error(NULL) == VICINAL_INVALID_ARGUMENT);
  int64_t released = -1;
  OK(vicinal_release_memory(&released));
  OK(vicinal_release_memory(NULL));
  CHECK(released >= 0);
}

static void finds_neighbours(void) {
  View c, q;
  DLManagedTensor *distances = NULL, *ids = NULL, *counts = NULL;
  vicinal_options options = defaults();
  view(&c, corpus_data, 2, 32, 4, 2);
  view(&q, query_data, 2, 32, 2, 2);
  OK(vicinal_knn(&c.tensor, &q.tensor, 3, NULL, &distances, &ids, &counts));
  if (distances == NULL || ids == NULL) return;
  CHECK(counts == NULL);
  CHECK(ids->dl_tensor.ndim == 2 && ids->dl_tensor.shape[0] == 2 && ids->dl_tensor.shape[1] == 3);
  CHECK(ids->dl_tensor.dtype.code == 0 && ids->dl_tensor.dtype.bits == 64 && ids->dl_tensor.dtype.lanes == 1);
  CHECK(ids->dl_tensor.strides[0] == 3 && ids->dl_tensor.strides[1] == 1 && ids->dl_tensor.device.device_type == 1);
  CHECK(distances->dl_tensor.dtype.code == 2 && distances->dl_tensor.dtype.bits == 32);
  CHECK(id(ids, 0) == 1 && id(ids, 1) == 3 && id(ids, 2) == 0 && id(ids, 3) == 0);
  CHECK(value(distances, 0) == 0 && value(distances, 2) == 5 && value(distances, 3) == 1);
  vicinal_tensor_free(distances);
  vicinal_tensor_free(ids);

  options.metric = "sqeuclidean";
  options.distance_type = "f64";
  options.first_id = 100;
  options.pad = 1;
  options.threads = 1;
  OK(vicinal_knn(&c.tensor, &q.tensor, 6, &options, &distances, &ids, &counts));
  if (counts == NULL) return;
  CHECK(((const double *)distances->dl_tensor.data)[2] == 25 && id(ids, 0) == 101 && id(ids, 4) == -1);
  CHECK(counts->dl_tensor.ndim == 1 && counts->dl_tensor.shape[0] == 2 && id(counts, 0) == 4);
  vicinal_tensor_free(distances);
  vicinal_tensor_free(ids);
  vicinal_tensor_free(counts);
  OK(vicinal_knn(&c.tensor, &q.tensor, 1, NULL, NULL, NULL, NULL)); /* nobody wants anything */
}

static void matches_images(void) {
  static float left[] = {0, 0, 9, 9, 5, 5}, right[] = {9, 8, 0, 1, 5.5f, 5, 5, 5.5f};
  static int64_t both[] = {0, 1, 1, 0};
  View a, b, p;
  DLManagedTensor *offsets = NULL, *rows = NULL, *distances = NULL, *ratios = NULL;
  vicinal_match_options tests;
  const DLTensor *images[2];
  memset(&tests, 0, sizeof tests);
  tests.size = sizeof tests;
  view(&a, left, 2, 32, 3, 2);
  view(&b, right, 2, 32, 4, 2);
  view(&p, both, 0, 64, 2, 2);
  images[0] = &a.tensor;
  images[1] = &b.tensor;
  OK(vicinal_match_pairs(2, images, &p.tensor, NULL, NULL, &offsets, &rows, &distances, &ratios));
  if (rows == NULL || distances == NULL) return;
  CHECK(offsets->dl_tensor.shape[0] == 3 && id(offsets, 1) == 2 && id(offsets, 2) == 4);
  CHECK(rows->dl_tensor.ndim == 2 && rows->dl_tensor.shape[0] == 4 && rows->dl_tensor.shape[1] == 2);
  CHECK(id(rows, 0) == 0 && id(rows, 1) == 1 && id(rows, 2) == 1 && id(rows, 3) == 0 && id(rows, 4) == 0 && id(rows, 5) == 1);
  CHECK(value(distances, 0) == 1 && ratios->dl_tensor.dtype.bits == 64 && ((const double *)ratios->dl_tensor.data)[0] < 0.8);
  vicinal_tensor_free(offsets);
  vicinal_tensor_free(rows);
  vicinal_tensor_free(distances);
  vicinal_tensor_free(ratios);
  tests.max_distance = 0.5;
  tests.has_max_distance = 1;
  tests.without_ratio = 1;
  tests.mutual = "one_way";
  OK(vicinal_match_pairs(2, images, &p.tensor, &tests, NULL, &offsets, NULL, NULL, NULL));
  if (offsets == NULL) return;
  CHECK(id(offsets, 1) == 1); /* (5, 5) is half away from two rows */
  vicinal_tensor_free(offsets);
  tests.mutual = "both";
  EXPECT(vicinal_match_pairs(2, images, &p.tensor, &tests, NULL, &offsets, NULL, NULL, NULL), VICINAL_INVALID_ARGUMENT, "one_way");
  tests.size = 1;
  EXPECT(vicinal_match_pairs(2, images, &p.tensor, &tests, NULL, NULL, NULL, NULL, NULL), VICINAL_INVALID_ARGUMENT, "tests.size");
}

static void reads_strides(void) {
  /* The same rows column by column, and from the end: ids turn around. */
  static float columns[] = {0, 3, 6, 3, 0, 4, 8, 4};
  View c, q;
  DLManagedTensor *ids = NULL;
  view(&q, query_data, 2, 32, 1, 2);
  view(&c, columns, 2, 32, 4, 2);
  c.strides[0] = 1;
  c.strides[1] = 4;
  c.tensor.strides = c.strides;
  OK(vicinal_knn(&c.tensor, &q.tensor, 3, NULL, NULL, &ids, NULL));
  if (ids == NULL) return;
  CHECK(id(ids, 0) == 1 && id(ids, 1) == 3 && id(ids, 2) == 0);
  ids->deleter(ids);
  view(&c, corpus_data, 2, 32, 4, 2);
  c.strides[0] = -2;
  c.strides[1] = 1;
  c.tensor.strides = c.strides;
  c.tensor.byte_offset = 6 * sizeof(float);
  OK(vicinal_knn(&c.tensor, &q.tensor, 3, NULL, NULL, &ids, NULL));
  if (ids == NULL) return;
  CHECK(id(ids, 0) == 0 && id(ids, 1) == 2 && id(ids, 2) == 1);
  ids->deleter(ids);
}

static void takes_six_types(void) {
  static const uint8_t types[6][2] = {{2, 32}, {2, 64}, {2, 16}, {4, 16}, {1, 8}, {0, 8}};
  static unsigned char zeros[64];
  int i;
  for (i = 0; i < 6; ++i) {
    View c;
    DLManagedTensor *distances = NULL;
    view(&c, zeros, types[i][0], types[i][1], 2, 4);
    OK(vicinal_knn(&c.tensor, &c.tensor, 2, NULL, &distances, NULL, NULL));
    if (distances == NULL) continue;
    CHECK(distances->dl_tensor.dtype.bits == (types[i][1] == 64 ? 64 : 32));
    vicinal_tensor_free(distances);
  }
}

static int stop_at_once(void *context, uint64_t done, uint64_t total) {
  (void)done;
  (void)total;
  ++*(int *)context;
  return 0;
}

static void refuses(void) {
  View c, q;
  DLManagedTensor *ids = (DLManagedTensor *)&c; /* must be null after an error */
  vicinal_options options = defaults();
  int calls = 0;
  float nan_data[2];
  view(&c, corpus_data, 2, 32, 4, 2);
  view(&q, query_data, 2, 32, 2, 2);
#define KNN(k) vicinal_knn(&c.tensor, &q.tensor, (k), &options, NULL, &ids, NULL)
  EXPECT(KNN(0), VICINAL_INVALID_ARGUMENT, "k must be >= 1, got 0");
  CHECK(ids == NULL);
  EXPECT(KNN(5), VICINAL_INVALID_ARGUMENT, "k=5 exceeds the n=4 rows of the corpus");
  EXPECT(vicinal_knn(NULL, &q.tensor, 1, NULL, NULL, &ids, NULL), VICINAL_INVALID_ARGUMENT, "corpus: the tensor is null");
  EXPECT(vicinal_knn(&c.tensor, NULL, 1, NULL, NULL, &ids, NULL), VICINAL_INVALID_ARGUMENT, "queries: the tensor is null");
  options.metric = "l2sq";
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "unknown metric \"l2sq\"");
  options = defaults();
  options.distance_type = "f16";
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "f16");
  options = defaults();
  options.degenerate = "two";
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "two");
  options = defaults();
  options.device = "cuda";
  CHECK(KNN(1) != VICINAL_OK);
  options = defaults();
  options.threads = -1;
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "threads must be >= 0, got -1");
  options = defaults();
  options.memory = 1;
  EXPECT(KNN(1), VICINAL_MEMORY_BUDGET, "");
  options = defaults();
  options.progress = stop_at_once;
  options.context = &calls;
  EXPECT(KNN(1), VICINAL_CANCELLED, "cancelled");
  CHECK(calls == 1);
  options = defaults();
  options.size = 0;
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "options.size is 0");
  options.size = 1 << 20;
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "options.size is 1048576");
  options = defaults();

  c.tensor.ndim = 1;
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "corpus: expected 2 dimensions, got 1 with shape (4,)");
  view(&c, corpus_data, 2, 32, 4, 2);
  c.tensor.shape = NULL;
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "no shape");
  view(&c, corpus_data, 2, 32, -1, 2);
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "negative size");
  view(&c, NULL, 2, 32, 4, 2);
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "no data");
  view(&c, corpus_data, 0, 64, 4, 2);
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "dtype int64 not supported");
  view(&c, corpus_data, 5, 64, 4, 2);
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "dtype code 5 of 64 bits not supported");
  view(&c, corpus_data, 2, 32, 4, 2);
  c.tensor.dtype.lanes = 4;
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "dtype float32x4 not supported");
  view(&c, corpus_data, 2, 32, 4, 2);
  c.tensor.device.device_type = 2;
  c.tensor.device.device_id = 1;
  EXPECT(KNN(1), VICINAL_DEVICE_ERROR, "corpus: the tensor is on DLPack device 2:1");
  view(&c, corpus_data, 2, 32, 4, 2);
  c.strides[0] = INT64_MAX / 2;
  c.tensor.strides = c.strides;
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "does not fit 64 bits");
  view(&c, corpus_data, 2, 32, 4, 2);
  view(&q, query_data, 2, 32, 1, 3);
  EXPECT(KNN(1), VICINAL_INVALID_ARGUMENT, "query has d=3, corpus has d=2");
  memset(nan_data, 0xFF, sizeof nan_data);
  view(&q, nan_data, 2, 32, 1, 2);
  EXPECT(KNN(1), VICINAL_INVALID_VALUE, "query row 0, column 0 is NaN");
  view(&q, corpus_data, 2, 32, 1, 2);
  options.metric = "cosine";
  EXPECT(KNN(1), VICINAL_INVALID_VALUE, "cosine");
  options.degenerate = "one";
  OK(KNN(1));
  vicinal_tensor_free(ids);
  CHECK(vicinal_last_error(NULL) == VICINAL_OK);
#undef KNN
}

/* A program built with another header: its structure is shorter, or longer by something that is set. */
static void takes_other_sizes(void) {
  View c;
  DLManagedTensor *ids = NULL;
  union {
    vicinal_options options;
    unsigned char bytes[sizeof(vicinal_options) + 16];
  } longer;
  view(&c, corpus_data, 2, 32, 4, 2);
  memset(&longer, 0, sizeof longer);
  longer.options.size = sizeof longer;
  OK(vicinal_knn(&c.tensor, &c.tensor, 1, &longer.options, NULL, &ids, NULL));
  vicinal_tensor_free(ids);
  longer.bytes[sizeof(vicinal_options) + 15] = 1;
  EXPECT(vicinal_knn(&c.tensor, &c.tensor, 1, &longer.options, NULL, &ids, NULL), VICINAL_UNSUPPORTED, "does not know");
  memset(&longer, 0xFF, sizeof longer);
  longer.options.size = offsetof(vicinal_options, metric);
  OK(vicinal_knn(&c.tensor, &c.tensor, 1, &longer.options, NULL, &ids, NULL));
  vicinal_tensor_free(ids);
}

static void selects(void) {
  int16_t rows[] = {5, 3, 3, 9, -1, 4};
  View v, p;
  DLManagedTensor *values = NULL, *ids = NULL, *payload = NULL;
  view(&v, rows, 0, 16, 2, 3);
  OK(vicinal_select(&v.tensor, 2, view(&p, "abcdef", 1, 8, 2, 3), NULL, &values, &ids, &payload));
  CHECK(((int16_t *)values->dl_tensor.data)[2] == -1 && id(ids, 0) == 1 && memcmp(payload->dl_tensor.data, "bcef", 4) == 0);
  vicinal_tensor_free(values), vicinal_tensor_free(ids), vicinal_tensor_free(payload);
  EXPECT(vicinal_select(&v.tensor, 4, NULL, NULL, NULL, NULL, NULL), VICINAL_INVALID_ARGUMENT, "k=4 exceeds the 3 values");
}
static void merges(void) {
  View c, q, first, second, bad;
  DLManagedTensor *d[2] = {NULL, NULL}, *i[2] = {NULL, NULL}, *distances = NULL, *ids = NULL;
  const DLTensor *d_parts[2], *i_parts[2];
  vicinal_options options = defaults();
  view(&q, query_data, 2, 32, 2, 2);
  view(&first, corpus_data, 2, 32, 2, 2);
  view(&second, corpus_data + 4, 2, 32, 2, 2);
  view(&c, corpus_data, 2, 32, 4, 2);
  OK(vicinal_knn(&first.tensor, &q.tensor, 2, NULL, &d[0], &i[0], NULL));
  options.first_id = 2;
  OK(vicinal_knn(&second.tensor, &q.tensor, 2, &options, &d[1], &i[1], NULL));
  if (d[0] == NULL || d[1] == NULL) return;
  d_parts[0] = &d[0]->dl_tensor;
  d_parts[1] = &d[1]->dl_tensor;
  i_parts[0] = &i[0]->dl_tensor;
  i_parts[1] = &i[1]->dl_tensor;
  OK(vicinal_merge(2, d_parts, i_parts, 3, NULL, &distances, &ids, NULL));
  if (distances != NULL && ids != NULL)
    CHECK(id(ids, 0) == 1 && id(ids, 1) == 3 && id(ids, 2) == 0 && value(distances, 2) == 5);
  vicinal_tensor_free(distances);
  vicinal_tensor_free(ids);
  EXPECT(vicinal_merge(0, NULL, NULL, 3, NULL, &distances, &ids, NULL), VICINAL_INVALID_ARGUMENT, "no parts");
  EXPECT(vicinal_merge(2, NULL, i_parts, 3, NULL, &distances, &ids, NULL), VICINAL_INVALID_ARGUMENT, "distances is null");
  EXPECT(vicinal_merge(2, d_parts, i_parts, 9, NULL, &distances, &ids, NULL), VICINAL_INVALID_ARGUMENT, "k=9 exceeds");
  EXPECT(vicinal_merge(2, d_parts, d_parts, 3, NULL, &distances, &ids, NULL), VICINAL_INVALID_ARGUMENT, "part 0: ids must be int64");
  EXPECT(vicinal_merge(2, i_parts, i_parts, 3, NULL, &distances, &ids, NULL), VICINAL_INVALID_ARGUMENT, "part 0: distances must be");
  view(&bad, corpus_data, 2, 32, 2, 1);
  d_parts[1] = &bad.tensor;
  EXPECT(vicinal_merge(2, d_parts, i_parts, 3, NULL, &distances, &ids, NULL), VICINAL_INVALID_ARGUMENT, "part 1: distances have shape (2, 1), ids (2, 2)");
  view(&bad, corpus_data, 2, 32, 2, 2);
  bad.strides[0] = 1;
  bad.strides[1] = 2;
  bad.tensor.strides = bad.strides;
  EXPECT(vicinal_merge(2, d_parts, i_parts, 3, NULL, &distances, &ids, NULL), VICINAL_INVALID_ARGUMENT, "part 1: the tensors must be row-major");
  CHECK(distances == NULL && ids == NULL);
  vicinal_tensor_free(d[0]);
  vicinal_tensor_free(d[1]);
  vicinal_tensor_free(i[0]);
  vicinal_tensor_free(i[1]);
}

static void graphs_and_ranges(void) {
  View c, q;
  DLManagedTensor *a = NULL, *b = NULL, *e = NULL;
  int code;
  view(&c, corpus_data, 2, 32, 4, 2);
  view(&q, query_data, 2, 32, 2, 2);
  code = vicinal_knn_graph(&c.tensor, 2, NULL, &a, &b, NULL);
  if (code == VICINAL_OK) {
    CHECK(id(b, 0) == 1 && id(b, 1) == 3 && id(b, 2) == 3 && value(a, 2) == 0);
    vicinal_tensor_free(a);
    vicinal_tensor_free(b);
  } else {
    EXPECT(code, VICINAL_UNSUPPORTED, "");
  }
  code = vicinal_range_search(&c.tensor, &q.tensor, 5.0, NULL, &a, &b, &e);
  if (code == VICINAL_OK) {
    CHECK(a->dl_tensor.ndim == 1 && a->dl_tensor.shape[0] == 3 && id(a, 0) == 0 && id(a, 1) == 4 && id(a, 2) == 7);
    CHECK(e->dl_tensor.shape[0] == 7 && id(e, 0) == 1 && id(e, 1) == 3 && id(e, 2) == 0 && value(b, 3) == 5);
    vicinal_tensor_free(a);
    vicinal_tensor_free(b);
    vicinal_tensor_free(e);
  } else {
    EXPECT(code, VICINAL_UNSUPPORTED, "");
  }
}

int main(int argc, char **argv) {
  knows_itself();
  finds_neighbours();
  matches_images();
  reads_strides();
  takes_six_types();
  refuses();
  takes_other_sizes();
  selects();
  failures += corpora(argc > 1 ? argv[1] : ".");
  merges();
  graphs_and_ranges();
  vicinal_tensor_free(NULL);
  printf("%d failures\n", failures);
  return failures > 100 ? 100 : failures;
}
