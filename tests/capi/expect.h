/* What the C99 programs here share: expectations that print where they fail, and views of arrays. */
#ifndef VICINAL_TESTS_CAPI_EXPECT_H
#define VICINAL_TESTS_CAPI_EXPECT_H
#include <stdio.h>
#include <string.h>

#include "vicinal/vicinal.h"

static int failures = 0;

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) {                                              \
      ++failures;                                                    \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                \
  } while (0)

/* The code, and a part of the text. */
static void expect_(int line, int code, int wanted, const char* part) {
  const char* text = NULL;
  const int last = vicinal_last_error(&text);
  if (code == wanted && last == wanted && strstr(text, part) != NULL) return;
  ++failures;
  printf("%s:%d: code %d (last %d) \"%s\", expected %d with \"%s\"\n", __FILE__, line, code, last, text, wanted, part);
}
#define EXPECT(call, wanted, part) expect_(__LINE__, (call), (wanted), (part))
#define OK(call) expect_(__LINE__, (call), VICINAL_OK, "")

static float corpus_data[] = {0, 0, 3, 4, 6, 8, 3, 4};
static float query_data[] = {3, 4, 0, 1};

typedef struct {
  DLTensor tensor;
  int64_t shape[2], strides[2];
} View;

static DLTensor* view(View* v, void* data, uint8_t code, uint8_t bits, int64_t rows, int64_t cols) {
  memset(v, 0, sizeof *v);
  v->shape[0] = rows;
  v->shape[1] = cols;
  v->tensor.data = data;
  v->tensor.device.device_type = 1;
  v->tensor.ndim = 2;
  v->tensor.dtype.code = code;
  v->tensor.dtype.bits = bits;
  v->tensor.dtype.lanes = 1;
  v->tensor.shape = v->shape;
  return &v->tensor;
}

static vicinal_options defaults(void) {
  vicinal_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

static int64_t id(const DLManagedTensor* t, int i) { return ((const int64_t*)t->dl_tensor.data)[i]; }
static float value(const DLManagedTensor* t, int i) { return ((const float*)t->dl_tensor.data)[i]; }

#endif
