/* Corpora from C: saved and opened, and the searches of one beside the functions of the same names. */
#include "expect.h"

int corpora(const char *folder);

static void saves_corpora(const char *folder) {
  char path[4096], other[4096];
  View c, q;
  vicinal_corpus *corpus = NULL, *opened = NULL;
  DLManagedTensor *want = NULL, *got = NULL;
  vicinal_options options = defaults();
  FILE *file;
  snprintf(path, sizeof path, "%s/test_capi.vicinal", folder);
  snprintf(other, sizeof other, "%s/none/test_capi.vicinal", folder);
  view(&c, corpus_data, 2, 32, 4, 2);
  view(&q, query_data, 2, 32, 2, 2);
  options.metric = "l1";
  options.copy = 1;
  OK(vicinal_corpus_create(&c.tensor, &options, &corpus));
  OK(vicinal_corpus_save(corpus, path));
  OK(vicinal_corpus_knn(corpus, &q.tensor, 4, NULL, &want, NULL, NULL));
  OK(vicinal_corpus_open(path, NULL, &opened));
  OK(vicinal_corpus_knn(opened, &q.tensor, 4, NULL, &got, NULL, NULL));
  if (want != NULL && got != NULL) {
    CHECK(value(want, 2) == 7);
    CHECK(memcmp(want->dl_tensor.data, got->dl_tensor.data, 8 * sizeof(float)) == 0);
  }
  vicinal_corpus_free(opened);
  vicinal_tensor_free(want);
  vicinal_tensor_free(got); /* results outlive their corpus */

  EXPECT(vicinal_corpus_save(corpus, other), VICINAL_IO_ERROR, "No such file or directory");
  EXPECT(vicinal_corpus_save(corpus, "a.npy"), VICINAL_UNSUPPORTED, ".vicinal");
  EXPECT(vicinal_corpus_save(corpus, NULL), VICINAL_INVALID_ARGUMENT, "path is null");
  EXPECT(vicinal_corpus_save(NULL, path), VICINAL_INVALID_ARGUMENT, "corpus is null");
  EXPECT(vicinal_corpus_knn(NULL, &q.tensor, 1, NULL, &got, NULL, NULL), VICINAL_INVALID_ARGUMENT, "corpus is null");
  EXPECT(vicinal_corpus_open(other, NULL, &opened), VICINAL_IO_ERROR, "cannot open");
  CHECK(opened == NULL);
  EXPECT(vicinal_corpus_open(NULL, NULL, &opened), VICINAL_INVALID_ARGUMENT, "path is null");
  EXPECT(vicinal_corpus_open(path, NULL, NULL), VICINAL_INVALID_ARGUMENT, "corpus is null");
  EXPECT(vicinal_corpus_create(&c.tensor, NULL, NULL), VICINAL_INVALID_ARGUMENT, "corpus is null");
  EXPECT(vicinal_corpus_create(NULL, NULL, &opened), VICINAL_INVALID_ARGUMENT, "rows: the tensor is null");

  file = fopen(path, "r+b"); /* one element of the rows */
  CHECK(file != NULL && fseek(file, 321, SEEK_SET) == 0 && fputc('x', file) == 'x' && fclose(file) == 0);
  EXPECT(vicinal_corpus_open(path, NULL, &opened), VICINAL_FORMAT_ERROR, "section 0 block 0: checksum differs");
  options.trust_file = 1;
  OK(vicinal_corpus_open(path, &options, &opened));
  vicinal_corpus_free(opened);
  file = fopen(path, "r+b");
  CHECK(file != NULL && fputc('x', file) == 'x' && fclose(file) == 0);
  EXPECT(vicinal_corpus_open(path, &options, &opened), VICINAL_FORMAT_ERROR, "not a vicinal file (first bytes 78 56 49");
  vicinal_corpus_free(corpus);
  vicinal_corpus_free(NULL);
  CHECK(remove(path) == 0);
}

static int same(const DLManagedTensor *a, const DLManagedTensor *b, size_t bytes) {
  return a != NULL && b != NULL && memcmp(a->dl_tensor.data, b->dl_tensor.data, bytes) == 0;
}

static void searches_corpora(void) {
  View c, q, i, d;
  vicinal_corpus *corpus = NULL;
  DLManagedTensor *want[3] = {NULL, NULL, NULL}, *got[3] = {NULL, NULL, NULL}, *faults = NULL;
  vicinal_options options = defaults();
  vicinal_verdict verdict;
  int64_t ids[] = {3, 0, 1, 2}; /* row 0: rows 1 and 3 are equal, and the smaller id comes first. Row 1: 2 is too far. */
  float distances[] = {0, 7, 4, 13};
  int n;
  memset(&verdict, 0, sizeof verdict);
  verdict.size = sizeof verdict;
  view(&c, corpus_data, 2, 32, 4, 2);
  view(&q, query_data, 2, 32, 2, 2);
  view(&i, ids, 0, 64, 2, 2);
  view(&d, distances, 2, 32, 2, 2);
  options.metric = "l1";
  OK(vicinal_corpus_create(&c.tensor, &options, &corpus));
  OK(vicinal_knn_graph(&c.tensor, 2, &options, &want[0], &want[1], NULL));
  OK(vicinal_corpus_knn_graph(corpus, 2, NULL, &got[0], &got[1], NULL));
  CHECK(same(want[0], got[0], 8 * sizeof(float)) && same(want[1], got[1], 8 * sizeof(int64_t)));
  for (n = 0; n < 3; ++n) vicinal_tensor_free(want[n]), vicinal_tensor_free(got[n]);
  OK(vicinal_range_search(&c.tensor, &q.tensor, 7, &options, &want[0], &want[1], &want[2]));
  OK(vicinal_corpus_range_search(corpus, &q.tensor, 7, NULL, &got[0], &got[1], &got[2]));
  CHECK(same(want[0], got[0], 3 * sizeof(int64_t)));
  if (want[0] != NULL) CHECK(id(want[0], 2) > 3 && same(want[2], got[2], (size_t)id(want[0], 2) * sizeof(int64_t)));
  for (n = 0; n < 3; ++n) vicinal_tensor_free(want[n]), vicinal_tensor_free(got[n]);

  for (n = 0; n < 2; ++n) {
    OK(n == 0 ? vicinal_verify(&c.tensor, &q.tensor, NULL, &i.tensor, 0, &options, &verdict, &faults)
              : vicinal_corpus_verify(corpus, &q.tensor, NULL, &i.tensor, 0, NULL, &verdict, &faults));
    CHECK(verdict.rows == 2 && verdict.correct == 0 && verdict.wrong == 2 && verdict.recall == 0.5);
    CHECK(faults != NULL && id(faults, 0) == 0 && id(faults, 1) == 0 && id(faults, 2) == 1 && id(faults, 3) == 1);
    vicinal_tensor_free(faults);
  }
  ids[1] = 1, ids[2] = 0, ids[3] = 1; /* row 0 in the other order of a tie; row 1 is right */
  OK(vicinal_corpus_verify(corpus, &q.tensor, NULL, &i.tensor, 0, NULL, &verdict, NULL));
  CHECK(verdict.correct == 1 && verdict.tie_order == 1 && verdict.near_ties == 0 && verdict.recall == 1);
  OK(vicinal_corpus_verify(corpus, &q.tensor, NULL, &i.tensor, 1e-6, NULL, &verdict, NULL));
  CHECK(verdict.correct == 2 && verdict.tie_order == 0 && verdict.near_ties == 1);
  OK(vicinal_corpus_verify(corpus, &q.tensor, &d.tensor, &i.tensor, 1e-6, NULL, &verdict, NULL));
  CHECK(verdict.distance == 2);
  verdict.size = 0;
  EXPECT(vicinal_corpus_verify(corpus, &q.tensor, NULL, &i.tensor, 0, NULL, &verdict, NULL), VICINAL_INVALID_ARGUMENT,
         "verdict.size is 0");
  EXPECT(vicinal_corpus_verify(corpus, &q.tensor, NULL, &i.tensor, 0, NULL, NULL, NULL), VICINAL_INVALID_ARGUMENT, "verdict is null");
  verdict.size = sizeof verdict;
  EXPECT(vicinal_verify(&c.tensor, &q.tensor, NULL, NULL, 0, NULL, &verdict, NULL), VICINAL_INVALID_ARGUMENT, "result: the tensor is null");
  EXPECT(vicinal_verify(&c.tensor, &q.tensor, &c.tensor, &i.tensor, 0, NULL, &verdict, NULL), VICINAL_INVALID_ARGUMENT,
         "result: distances have shape (4, 2), ids (2, 2)");
  EXPECT(vicinal_corpus_knn_graph(NULL, 2, NULL, NULL, NULL, NULL), VICINAL_INVALID_ARGUMENT, "corpus is null");
  EXPECT(vicinal_corpus_range_search(NULL, &q.tensor, 1, NULL, NULL, NULL, NULL), VICINAL_INVALID_ARGUMENT, "corpus is null");
  vicinal_corpus_free(corpus);
}

int corpora(const char *folder) {
  saves_corpora(folder);
  searches_corpora();
  return failures;
}
