// What Python's garbage collector asks of our classes that hold Python objects. A class has traverse(visit, arg), which
// shows each reference that it alone owns, and clear(), which drops those that are safe to drop; what is kept goes with
// the other objects of its cycle.
#pragma once
#include <nanobind/nanobind.h>

namespace vicinal::python {

namespace nb = nanobind;

template <class T>
int traverse_slot(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<T>(self)->traverse(visit, arg) : 0;
}

template <class T>
int clear_slot(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<T>(self)->clear();
  return 0;
}

/// For nb::class_<T>(m, name, nb::type_slots(collected<T>)).
template <class T>
inline PyType_Slot collected[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse_slot<T>)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear_slot<T>)},
    {0, nullptr},
};

}  // namespace vicinal::python
