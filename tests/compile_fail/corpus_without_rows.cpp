// expect: (no matching function|no matching constructor)
#include <vicinal/vicinal.hpp>

vicinal::Corpus wrong;
