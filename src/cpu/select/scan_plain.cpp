// The scan in plain C++, 16 bytes at a time.
#include <cstring>
#include <type_traits>

#include "cpu/isa/other_tables.hpp"
#include "cpu/select/scan.hpp"
#include "select/ordered.hpp"

namespace vicinal::cpu {
namespace {

constexpr int scan_vector = 16;
#include "cpu/select/scan_generic.inc"

}  // namespace

constexpr Scans scans_plain = {
    "plain",
    {&scan<ValueType::f32>, &scan<ValueType::f64>, &scan<ValueType::f16>, &scan<ValueType::bf16>, &scan<ValueType::u8>,
     &scan<ValueType::i8>, &scan<ValueType::u16>, &scan<ValueType::i16>, &scan<ValueType::u32>, &scan<ValueType::i32>,
     &scan<ValueType::u64>, &scan<ValueType::i64>}};
static_assert(scans_plain.complete());

}  // namespace vicinal::cpu
