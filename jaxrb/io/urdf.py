"""URDF made ready for MuJoCo."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from .report import Losses

_KNOWN = {"link", "joint", "material", "mujoco"}
_KNOWN_IN_JOINTS = {"parent", "child", "origin", "axis", "limit", "dynamics", "mimic"}


def prepare(robot: ET.Element, path: Path, floating_base: bool, losses: Losses) -> bool:
    """Gives the root link a floating joint and its meshes absolute names, in place.

    MuJoCo merges a URDF's root link into the world, where its mass is lost. A link of the name
    `world` is the world; any other root gets such a parent and is free.

    Args:
        robot: the root of the XML.
        path: the file, beside which its meshes are sought.
        floating_base: False leaves the root link fixed to the world.
        losses: what is not understood.

    Returns:
        Whether all names of meshes were found here; else MuJoCo's rules for them hold.
    """
    for element in robot:
        if isinstance(element.tag, str) and element.tag not in _KNOWN:
            note = losses.lost if element.tag == "transmission" else losses.harmless
            name = element.get("name") or element.get("reference") or ""
            note(element.tag, name, "not known")
    _note_joints(robot, losses)
    links = [link.get("name", "") for link in robot.findall("link")]
    children = {child.get("link") for child in robot.findall("joint/child")}
    roots = [name for name in links if name not in children]
    if len(roots) == 1 and roots[0] != "world":
        if floating_base:
            _add_floating_joint(robot, roots[0], links)
        else:
            losses.harmless("link", roots[0], "fixed to the world, because floating_base=False")
    return _resolve_meshes(robot, path, losses)


def _note_joints(robot: ET.Element, losses: Losses) -> None:
    """Notes what neither MuJoCo nor jaxrb takes from joints."""
    for joint in robot.findall("joint"):
        name = joint.get("name", "")
        for part in joint:
            if isinstance(part.tag, str) and part.tag not in _KNOWN_IN_JOINTS:
                losses.harmless(part.tag, name, "not known")
        limit = joint.find("limit")
        if limit is not None and {"effort", "velocity"} & limit.attrib.keys():
            losses.harmless("limit", name, "its effort and velocity limit nothing without a motor")


def _add_floating_joint(robot: ET.Element, root: str, links: list[str]) -> None:
    world = "world"
    while world in links:
        world += "_"
    ET.SubElement(robot, "link", name=world)
    joint = ET.SubElement(robot, "joint", name=f"{root}_floating", type="floating")
    ET.SubElement(joint, "parent", link=world)
    ET.SubElement(joint, "child", link=root)


def _resolve_meshes(robot: ET.Element, path: Path, losses: Losses) -> bool:
    folder = path.resolve().parent
    # Visual meshes count for nothing, unless the file tells MuJoCo more about them.
    for link in robot.findall("link") if robot.find("mujoco") is None else ():
        for visual in link.findall("visual"):
            mesh = visual.find("geometry/mesh")
            name = "" if mesh is None else mesh.get("filename", "")
            if name and _resolve(name, folder) is None:
                link.remove(visual)
                losses.harmless("visual", name, "its mesh is not there")
    meshes = [mesh for mesh in robot.iter("mesh") if mesh.get("filename")]
    found = [_resolve(mesh.get("filename", ""), folder) for mesh in meshes]
    if any(file is None for file in found):
        return False
    for mesh, file in zip(meshes, found, strict=True):
        mesh.set("filename", str(file))
    return True


def _resolve(name: str, folder: Path) -> Path | None:
    """The file of a mesh: `package://name/rest` lies in this folder or one above it, under the
    package's name or without it."""
    scheme, separator, rest = name.partition("://")
    if not separator:
        candidates = [folder / name]
    elif scheme == "package":
        inside = rest.partition("/")[2]
        above = (folder, *folder.parents)
        candidates = [up / part for up in above for part in (rest, inside)]
    else:
        candidates = [Path(rest)]
    return next((file for file in candidates if file.is_file()), None)
