"""A DLPack tensor by hand, of any type and on any device, so that bfloat16 and foreign devices can be tested
without a framework that has them."""

import ctypes

import numpy as np

CPU, CUDA = 1, 2
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    """Exports `array` (any two-byte type may stand for bfloat16) and counts how often it was given back. strides, in elements, and offset, in bytes, may lie."""

    def __init__(self, array, code, bits=None, device=(CPU, 0), dense=False, strides=None, offset=0):
        self.strides, self.offset = strides, offset
        self.array, self.device, self.released = array, device, 0
        self.code, self.bits, self.dense = code, bits or 8 * array.itemsize, dense
        self.keep = []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        array = self.array
        extents = ctypes.c_int64 * array.ndim
        shape = extents(*array.shape)
        strides = extents(*getattr(self, "strides", None) or [stride // array.itemsize for stride in array.strides])
        tensor = _Tensor(array.ctypes.data, *self.device, array.ndim, self.code, self.bits, 1, shape,
                         None if self.dense else strides, getattr(self, "offset", 0))  # fmt: skip

        def release(_):
            self.released += 1

        deleter = _Deleter(release)
        managed = _Managed(tensor, None, ctypes.cast(deleter, ctypes.c_void_p))
        self.keep.append((shape, strides, deleter, managed))
        return _new_capsule(ctypes.addressof(managed), b"dltensor", None)


def bfloat16_bits(values):
    """The upper half of float32, for values that have no lower half."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


def rounded_to_bfloat16(values):
    """float32 values cut to what bfloat16 holds."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
