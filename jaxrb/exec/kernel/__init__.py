"""Functions of one lane as kernels: traced by JAX, written with scalars, compiled as C or CUDA."""

from .call import as_kernel as as_kernel
from .operations import NotScalarError as NotScalarError
