"""Files: models of other programs (MJCF, URDF), meshes, and jaxrb's own worlds and solutions.

`load` opens any of them by its suffix. Models need MuJoCo (`pip install "jaxrb[mjcf]"`), meshes
trimesh (`pip install "jaxrb[mesh]"`); both are imported when they are first asked for.
"""

from .._help import publish
from .checkpoint import (
    resume as resume,
    simulate_with_checkpoints as simulate_with_checkpoints,
)
from .files import load_file as load_file, save as save
from .mesh import load_body as load_body, load_mesh as load_mesh
from .model import Keyframe as Keyframe, Model as Model, load_model as load_model
from .opening import load as load
from .part_files import Parts as Parts, open_parts as open_parts
from .parts import simulate_parts as simulate_parts
from .report import Entry as Entry, Report as Report

publish(__name__)
