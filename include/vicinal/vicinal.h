/* The C face of vicinal, for other languages: opaque corpora, DLPack tensors in and out, a code from every function.
 * C99 and C++. Semantics, names and messages are those of the C++ face (vicinal.hpp).
 *
 *   DLManagedTensor *distances = NULL, *ids = NULL;
 *   if (vicinal_knn(&corpus, &queries, 10, NULL, &distances, &ids, NULL) != VICINAL_OK) {
 *     const char *text;
 *     vicinal_last_error(&text);
 *     ...
 *   }
 *   vicinal_tensor_free(distances);
 *   vicinal_tensor_free(ids);
 */
#ifndef VICINAL_VICINAL_H
#define VICINAL_VICINAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DLPack's structures as far as they are used here. Who has dlpack.h includes it before this file. */
#if !defined(DLPACK_DLPACK_H_) && !defined(VICINAL_HAS_DLPACK)
#define VICINAL_HAS_DLPACK 1

/* Where memory is: 1 is the host's; 3 and 11 are host memory that a GPU driver has pinned. */
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;

/* A number's kind (0 int, 1 uint, 2 float, 4 bfloat), its bits, and how many of them make an element: here always 1. */
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

/* A view: `strides` count elements, not bytes, and NULL stands for row-major and dense. */
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;

/* A tensor with an owner behind it: its holder calls deleter(itself) once, when done. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;
#endif

/* What every function returns: 0, or which kind of error (docs/errors.md). The numbers never change. */
enum {
  VICINAL_OK = 0,
  VICINAL_INVALID_ARGUMENT = 1,
  VICINAL_INVALID_VALUE = 2,
  VICINAL_RANGE_ERROR = 3,
  VICINAL_CAPACITY_EXCEEDED = 4,
  VICINAL_MEMORY_BUDGET = 5,
  VICINAL_OUT_OF_MEMORY = 6,
  VICINAL_DEVICE_ERROR = 7,
  VICINAL_IO_ERROR = 8,
  VICINAL_FORMAT_ERROR = 9,
  VICINAL_VERSION_ERROR = 10,
  VICINAL_CANCELLED = 11,
  VICINAL_UNSUPPORTED = 12,
  VICINAL_INTERNAL = 13
};

/* Set `size` to sizeof(vicinal_options) and all else to zero, which is every default: this is how a program built with
 * an older header goes on working. A null pointer in place of the structure is all defaults too. */
typedef struct {
  size_t size;
  const char* metric;        /* "euclidean"; ignored where a corpus is given, as is degenerate */
  const char* distance_type; /* "auto", "f32", "f64", "u32" */
  const char* degenerate;    /* "error", "one" */
  const char* device;        /* "auto", "cpu", "cuda", "cuda:N", "cuda:all", "cuda:0,cuda:1" */
  int64_t memory;            /* bytes beyond what the process holds; 0: what is free, less a tenth */
  int64_t first_id;          /* id of row 0 */
  int32_t threads;           /* 0: affinity mask and cgroup quota decide */
  int32_t pad;               /* 1: fill up with id -1 where there are fewer than k rows */
  int32_t copy;              /* corpus: own the rows; 0 borrows them, or maps the file */
  int32_t trust_file;        /* vicinal_corpus_open: 1 leaves the checksums of the rows unread */
  int32_t include_self;      /* graphs: a row may be in its own list */
  int32_t exhaustive;        /* 1: compute every pair in fp64; same bits, slowly */
  int64_t max_results;       /* range searches: more is VICINAL_CAPACITY_EXCEEDED; 0: what free memory holds */
  int (*progress)(void* context, uint64_t done, uint64_t total); /* 0 cancels; called by the calling thread */
  void* context;
  const char* algorithm; /* vicinal_select: "auto", or a name that `vicinal select --list` has */
  int32_t largest;       /* vicinal_select: 1 for the largest values */
  int32_t unsorted;      /* vicinal_select: 1 leaves the order of a row free */
} vicinal_options;

/* "0.1.0" */
const char* vicinal_version(void);
/* The code of this thread's last call of a function below, and its text ("" after a success), which holds until the
 * thread's next call. `text` may be null. */
int vicinal_last_error(const char** text);
/* Version, instruction sets, filters and devices, a line each. The text holds until this thread asks again. */
int vicinal_info(const char** text);

/* Gives back to the drivers what CUDA devices keep of their memory between calls; `bytes`, which may be null, says how
 * much. */
int vicinal_release_memory(int64_t* bytes);

/* Rows prepared once and searched often; safe to search from many threads at once. Borrowed rows must outlive it. */
typedef struct vicinal_corpus vicinal_corpus;
int vicinal_corpus_create(const DLTensor* rows, const vicinal_options* options, vicinal_corpus** corpus);
/* What vicinal_corpus_save wrote. */
int vicinal_corpus_open(const char* path, const vicinal_options* options, vicinal_corpus** corpus);
/* To a file with the suffix .vicinal; whatever happens, the old file or the new one is there. */
int vicinal_corpus_save(const vicinal_corpus* corpus, const char* path);
void vicinal_corpus_free(vicinal_corpus* corpus); /* null is fine */

/* Inputs are two-dimensional, in host memory, float32, float64, float16, bfloat16, uint8 or int8, with any strides.
 * Outputs go to new tensors, which the caller frees; an output that is not wanted may be null. After an error all of
 * them are null. distances are float32, float64 or uint32, ids and all counts int64. */

/* (Q, k) distances and ids; counts (Q) only with pad, else null. */
int vicinal_knn(const DLTensor* corpus, const DLTensor* queries, int64_t k, const vicinal_options* options,
                DLManagedTensor** distances, DLManagedTensor** ids, DLManagedTensor** counts);
int vicinal_corpus_knn(const vicinal_corpus* corpus, const DLTensor* queries, int64_t k, const vicinal_options* options,
                       DLManagedTensor** distances, DLManagedTensor** ids, DLManagedTensor** counts);
/* The k nearest other rows of each row. */
int vicinal_knn_graph(const DLTensor* rows, int64_t k, const vicinal_options* options, DLManagedTensor** distances,
                      DLManagedTensor** ids, DLManagedTensor** counts);
/* Rows within the radius: entries offsets[i] to offsets[i + 1] of distances and ids belong to query i. */
int vicinal_range_search(const DLTensor* corpus, const DLTensor* queries, double radius, const vicinal_options* options,
                         DLManagedTensor** offsets, DLManagedTensor** distances, DLManagedTensor** ids);
/* The same over the rows of a corpus, which are prepared already: equal bits. */
int vicinal_corpus_knn_graph(const vicinal_corpus* corpus, int64_t k, const vicinal_options* options,
                             DLManagedTensor** distances, DLManagedTensor** ids, DLManagedTensor** counts);
int vicinal_corpus_range_search(const vicinal_corpus* corpus, const DLTensor* queries, double radius,
                                const vicinal_options* options, DLManagedTensor** offsets, DLManagedTensor** distances,
                                DLManagedTensor** ids);

/* What vicinal_verify found, in rows of the claimed result. Set `size` to sizeof(vicinal_verdict). */
typedef struct {
  size_t size;
  int64_t rows;
  int64_t correct;
  int64_t wrong;     /* another set of neighbours */
  int64_t tie_order; /* the right distances, another choice or order among equals; only where the tolerance is 0 */
  int64_t distance;  /* a distance that is not the contract's */
  int64_t near_ties; /* of the correct: other ids, at distances within the tolerance */
  double recall;     /* share of claimed ids that are among the true k */
  double largest_relative_difference; /* of claimed distances */
} vicinal_verdict;

/* Checks a result of any tool: ids (Q, k) int64, and distances (Q, k) float32, float64 or uint32, or null. Distances
 * within relative_tolerance tie; 0 compares bits. faults (F, 3) int64, if wanted: row, kind (0 wrong, 1 order of ties,
 * 2 distance) and the first rank that shows it, of each row that is not right. Rows are read on the host. */
int vicinal_verify(const DLTensor* corpus, const DLTensor* queries, const DLTensor* distances, const DLTensor* ids,
                   double relative_tolerance, const vicinal_options* options, vicinal_verdict* verdict,
                   DLManagedTensor** faults);
int vicinal_corpus_verify(const vicinal_corpus* corpus, const DLTensor* queries, const DLTensor* distances,
                          const DLTensor* ids, double relative_tolerance, const vicinal_options* options,
                          vicinal_verdict* verdict, DLManagedTensor** faults);
/* One result from `parts` results of parts of a corpus, dense; k = 0 is the widest. Of the options: metric and pad. */
int vicinal_merge(size_t parts, const DLTensor* const* distances, const DLTensor* const* ids, int64_t k,
                  const vicinal_options* options, DLManagedTensor** merged_distances, DLManagedTensor** merged_ids,
                  DLManagedTensor** counts);

/* Of a matching. Set `size` to sizeof(vicinal_match_options) and all else to zero, which is every default. */
typedef struct {
  size_t size;
  const char* distance; /* "euclidean", another metric of vectors, or "angle" */
  const char* mutual;   /* "tested": both directions pass; "nearest": both name each other; "one_way" */
  double ratio;         /* of best to second best, 1e-6 to 1e6; 0: 0.8 */
  double max_distance;  /* of the best, where has_max_distance is 1 */
  int32_t has_max_distance;
  int32_t without_ratio; /* 1: no ratio test */
  int32_t inclusive;     /* 1: best <= ratio * second passes, else best < ratio * second */
  int32_t reject_lone;   /* 1: a best without a second fails */
} vicinal_match_options;

/* The matches of pairs of images, `pairs` (P, 2) int64, dense, numbers of images: entries offsets[p] to offsets[p + 1]
 * of rows (M, 2), distances and ratios (float64) belong to pair p. `tests` and `options` may be null; of the options:
 * device, threads, memory, progress. */
int vicinal_match_pairs(size_t images, const DLTensor* const* rows, const DLTensor* pairs,
                        const vicinal_match_options* tests, const vicinal_options* options, DLManagedTensor** offsets,
                        DLManagedTensor** matched_rows, DLManagedTensor** distances, DLManagedTensor** ratios);

/* The k smallest or largest values of each row, their positions (int64) and, where a payload of the same shape is
 * given, its items there; results have the types of the inputs. Values: floats of 16 to 64 bits, bfloat16, integers of
 * 8 to 64; items of a payload: anything of 1, 2, 4 or 8 bytes. Of the options: algorithm, largest, unsorted, device,
 * threads, progress. */
int vicinal_select(const DLTensor* values, int64_t k, const DLTensor* payload, const vicinal_options* options,
                   DLManagedTensor** chosen, DLManagedTensor** ids, DLManagedTensor** chosen_payload);

/* Calls the tensor's deleter; null is fine. */
void vicinal_tensor_free(DLManagedTensor* tensor);

#ifdef __cplusplus
}
#endif
#endif
