// expect: (cannot convert|cannot initialize|could not convert|invalid conversion)
#include <vicinal/vicinal.hpp>

vicinal::CorpusOptions wrong() { return {.metric = 3}; }
