// The members of what a search reports, by name and in order: Python's objects and the command's JSON are made from
// these lists, and so may be a program's own log.
//
//   vicinal::for_each_field(result.stats, [&](const char* name, const auto& value) { log[name] = value; });
#pragma once
#include <tuple>

#include "vicinal/device.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

template <class Struct, class Member>
struct Field {
  const char* name;
  Member Struct::*member;
};
template <class Struct, class Member>
Field(const char*, Member Struct::*) -> Field<Struct, Member>;

/// `listed` has a Field for each member of Struct.
template <class Struct>
struct Fields;

#define VICINAL_FIELD(member) \
  Field { #member, &Struct::member }

template <>
struct Fields<Certificate> {
  using Struct = Certificate;
  static constexpr std::tuple listed{VICINAL_FIELD(queries), VICINAL_FIELD(proven), VICINAL_FIELD(redone),
                                     VICINAL_FIELD(precisions), VICINAL_FIELD(largest_bound)};
};

template <>
struct Fields<Stats> {
  using Struct = Stats;
  static constexpr std::tuple listed{VICINAL_FIELD(device),
                                     VICINAL_FIELD(instruction_set),
                                     VICINAL_FIELD(threads),
                                     VICINAL_FIELD(seconds),
                                     VICINAL_FIELD(prepare_seconds),
                                     VICINAL_FIELD(pairs),
                                     VICINAL_FIELD(candidates),
                                     VICINAL_FIELD(reranked),
                                     VICINAL_FIELD(underflowed),
                                     VICINAL_FIELD(copied_bytes),
                                     VICINAL_FIELD(planned_bytes),
                                     VICINAL_FIELD(used_bytes),
                                     VICINAL_FIELD(rotated),
                                     VICINAL_FIELD(projected),
                                     VICINAL_FIELD(planned_seconds),
                                     VICINAL_FIELD(passes),
                                     VICINAL_FIELD(notes)};
};

template <>
struct Fields<Plan> {
  using Struct = Plan;
  static constexpr std::tuple listed{
      VICINAL_FIELD(device),       VICINAL_FIELD(instruction_set), VICINAL_FIELD(cascade),
      VICINAL_FIELD(threads),      VICINAL_FIELD(distance_type),   VICINAL_FIELD(budget_bytes),
      VICINAL_FIELD(peak_bytes),   VICINAL_FIELD(minimum_bytes),   VICINAL_FIELD(result_bytes),
      VICINAL_FIELD(corpus_chunk), VICINAL_FIELD(query_batch),     VICINAL_FIELD(query_block),
      VICINAL_FIELD(row_splits),   VICINAL_FIELD(passes),          VICINAL_FIELD(candidate_slots),
      VICINAL_FIELD(match_bytes),  VICINAL_FIELD(symmetric),       VICINAL_FIELD(rotated),
      VICINAL_FIELD(projected),    VICINAL_FIELD(resident),        VICINAL_FIELD(seconds),
      VICINAL_FIELD(sampled_rows), VICINAL_FIELD(left_rows),       VICINAL_FIELD(details),
      VICINAL_FIELD(notes)};
};

template <>
struct Fields<Device> {
  using Struct = Device;
  static constexpr std::tuple listed{VICINAL_FIELD(name), VICINAL_FIELD(description), VICINAL_FIELD(usable),
                                     VICINAL_FIELD(reason), VICINAL_FIELD(free_bytes)};
};

template <>
struct Fields<Info> {
  using Struct = Info;
  static constexpr std::tuple listed{VICINAL_FIELD(version),
                                     VICINAL_FIELD(semantics_version),
                                     VICINAL_FIELD(compiler),
                                     VICINAL_FIELD(instruction_sets),
                                     VICINAL_FIELD(built_instruction_sets),
                                     VICINAL_FIELD(filters),
                                     VICINAL_FIELD(backends),
                                     VICINAL_FIELD(devices),
                                     VICINAL_FIELD(threads)};
};

#undef VICINAL_FIELD

/// Calls visit(name, value) for each listed member, in order.
template <class Struct, class Visit>
void for_each_field(const Struct& from, Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field.name, from.*field.member), ...); }, Fields<Struct>::listed);
}

}  // namespace vicinal
