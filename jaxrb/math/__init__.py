"""Fixed-size algebra in component form, the vocabulary of the hot path."""

from .safe import safe_divide as safe_divide, safe_sqrt as safe_sqrt
from .small import (
    Diag3 as Diag3,
    InertiaTensor as InertiaTensor,
    Mat3 as Mat3,
    Sym3 as Sym3,
    axial as axial,
    solve3 as solve3,
    symmetric_part as symmetric_part,
)
from .stumpff import stumpff as stumpff, stumpff_series as stumpff_series
from .vec import (
    Quat as Quat,
    Vec3 as Vec3,
    cross as cross,
    direction as direction,
    dot as dot,
    hadamard as hadamard,
    norm as norm,
    rotate as rotate,
    rotate_inverse as rotate_inverse,
    tree_where as tree_where,
    zeros_like as zeros_like,
)
