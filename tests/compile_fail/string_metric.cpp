// expect: (could not convert|cannot initialize|cannot convert)
#include <vicinal/vicinal.hpp>

vicinal::KnnOptions wrong() { return {.metric = "euclidean"}; }
