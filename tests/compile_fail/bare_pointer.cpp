// expect: (no matching function|could not bind)
#include <vicinal/vicinal.hpp>

vicinal::Neighbors wrong(const float* data) { return vicinal::knn(data, data); }
