// vicinal::Error as the class of the same name in vicinal.errors.
#pragma once

namespace vicinal::python {

void register_errors();

}  // namespace vicinal::python
