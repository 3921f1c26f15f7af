"""Moments of solids without a closed form, as integrals over their boundary.

`assembly` takes a solid apart into shapes, `patches` covers the surface of each with maps of
the unit square (`surface_net` where only a function is known), `boundary` tells where these bound
the solid, `sign_changes` finds the ends of what is visible, `cubature` integrates, and `moments`
adds derivatives.
"""

from .moments import quadrature_moments as quadrature_moments
