// expect: deleted
#include <vicinal/vicinal.hpp>

vicinal::Corpus wrong(const vicinal::Corpus& corpus) { return corpus; }
