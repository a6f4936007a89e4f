// expect: (narrowing|cannot be narrowed)
#include <vicinal/vicinal.hpp>

vicinal::KnnOptions wrong() { return {.k = 2.5}; }
