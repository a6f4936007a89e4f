// expect: (invalid conversion|cannot initialize)
#include <vicinal/vicinal.hpp>

void wrong(const vicinal::Neighbors& result) {
  std::int64_t* ids = result.ids();
  ids[0] = 1;
}
