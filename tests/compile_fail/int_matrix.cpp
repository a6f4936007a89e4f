// expect: vectors are f32, f64, f16, bf16, u8 or i8
#include <vicinal/vicinal.hpp>

vicinal::Points wrong(const int* data) { return vicinal::MatrixView<int>{data, 3, 4}; }
