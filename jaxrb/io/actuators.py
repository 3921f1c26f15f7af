"""Motors from the actuators of a compiled model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import real_array
from ..bodies import Motor, Phase, State
from ..bodies.joints.base import AbstractMovingJoint
from ..bodies.joints.coordinate import Motion
from ..bodies.joints.coordinates import JointCoordinates
from ..math import Quat, Vec3
from .joints import NamedJoint
from .kinematics import as_jax
from .report import Losses
from .settings import disabled, of
from .unsupported import name_of

# A range without an end: a simulation refuses worlds with numbers that are not finite.
_ENDLESS = float(np.finfo(np.float32).max)


class Actuators(eqx.Module):
    """The torques and forces of motors in joints, by the controls that `simulate` gets as args.

    With its control u, its length l = gear q and the velocity of that, an actuator has the force
    f = (g0 + g1 l + g2 dl/dt) u + b0 + b1 l + b2 dl/dt, which gives its joint the torque gear f.

    Attributes:
        joints: of the coordinates that are driven.
        axes: of each joint which of its coordinates that is.
        driven: of each actuator the place of its coordinate.
        control: of each its place among the controls.
        n_controls: of the model.
        gear, gain, bias: numbers as above.
        control_range, force_range: within which they are kept.
        torque_range: of the sums along each coordinate.
    """

    joints: tuple[AbstractMovingJoint, ...]
    axes: tuple[int, ...] = eqx.field(static=True)
    driven: tuple[int, ...] = eqx.field(static=True)
    control: tuple[int, ...] = eqx.field(static=True)
    n_controls: int = eqx.field(static=True)
    reads: tuple[bool, bool] = eqx.field(static=True)  # coordinates, their rates
    gear: Float[Array, " n_actuators"]
    gain: Float[Array, "n_actuators 3"]
    bias: Float[Array, "n_actuators 3"]
    control_range: Float[Array, "n_actuators 2"]
    force_range: Float[Array, "n_actuators 2"]
    torque_range: Float[Array, "n_driven 2"]

    def __call__(self, t: Any, state: State, args: Any) -> Float[Array, " n_driven"]:
        dtype = state.position.dtype
        number = lambda array: array.astype(dtype)  # noqa: E731
        u = number(self._controls(t, args))[np.array(self.control)]
        u = jnp.clip(u, *number(self.control_range).T)
        gear, gain, bias = number(self.gear), number(self.gain), number(self.bias)
        scale, offset = gain[:, 0], bias[:, 0]
        for order, values in enumerate(self._coordinates(state), start=1):
            if values is not None:
                length = gear * values[np.array(self.driven)]
                scale, offset = scale + gain[:, order] * length, offset + bias[:, order] * length
        force = jnp.clip(scale * u + offset, *number(self.force_range).T)
        drives = np.array(self.driven) == np.arange(len(self.joints))[:, None]
        torque = jnp.sum(jnp.where(drives, gear * force, 0.0), axis=-1)
        return jnp.clip(torque, *number(self.torque_range).T)

    def _controls(self, t: Any, args: Any) -> Array:
        controls = args(t) if callable(args) else args
        try:
            return real_array(controls, "args of simulate", (self.n_controls,))
        except ValueError as error:
            raise ValueError(
                f"{error} The actuators of this model take their {self.n_controls} controls from "
                "it, in the order of Model.control_names: give simulate(..., args=model.controls)."
            ) from error

    def _coordinates(self, state: State) -> tuple[Array | None, Array | None]:
        """What is driven and its rates, where an actuator depends on them."""
        if not any(self.reads):
            return None, None
        pairs = zip(self.joints, self.axes, strict=True)
        motions = [Motion(k, joint, axis) for k, (joint, axis) in enumerate(pairs)]
        known = JointCoordinates.along(motions, state.position.dtype)
        zero = jnp.zeros_like(state.position)
        phase = Phase(
            Vec3.of(state.position), Quat.of(state.quaternion), Vec3.of(zero), Vec3.of(zero)
        )
        values = known.in_order(known.value(phase)) if self.reads[0] else None
        if not self.reads[1]:
            return values, None
        velocities = Vec3.of(state.velocity), Vec3.of(state.angular_velocity)
        return values, known.in_order(known.directions(phase).rate(*velocities))


def control_names(model: Any) -> tuple[str, ...]:
    """What the controls of a model are called: as their actuators."""
    names = [""] * int(model.nu)
    for actuator in range(_number(model)):
        first, several = _controls_of(model, actuator)
        for number in range(several):
            name = name_of(model, "actuator", actuator)
            names[first + number] = name if several == 1 else f"{name} {number}"
    return tuple(names)


def motors(mujoco: Any, model: Any, joints: Sequence[NamedJoint], losses: Losses) -> list[Motor]:
    """One motor for all coordinates that servos drive by which rates are fed back, and one for all
    others; notes what they do not have."""
    places = {
        source: (k, axis)
        for k, named in enumerate(joints)
        for axis, source in enumerate(named.sources)
    }
    known = []
    for actuator in range(_number(model)):
        name = name_of(model, "actuator", actuator)
        if _is_off(mujoco, model, actuator):
            losses.harmless("actuator", name, "not active")
            continue
        driven = places.get(int(model.actuator_trnid[actuator, 0]))
        why = _unknown(mujoco, model, actuator, driven)
        for reason in why:
            losses.lost("actuator", name, reason)
        if not why and driven is not None:
            known.append(_Drive(actuator, driven))
    places = [drive.place for drive in known]
    alone = [drive for drive in known if places.count(drive.place) == 1]
    servos = [drive for drive in alone if _feedback(mujoco, model, drive.actuator) > 0]
    others = [drive for drive in known if drive not in servos]
    makers = ((_servo, servos), (_motor, others))
    return [make(mujoco, model, own, joints) for make, own in makers if own]


class _Drive(NamedTuple):
    """An actuator, and what it drives: the place of a joint, and which of its coordinates."""

    actuator: int
    place: tuple[int, int]


def _motor(
    mujoco: Any, model: Any, drives: Sequence[_Drive], joints: Sequence[NamedJoint]
) -> Motor:
    driven = sorted({drive.place for drive in drives})
    function = _actuators(mujoco, model, drives, driven, joints)
    own, axes = zip(*driven, strict=True)
    return Motor(own, function, velocity_dependent=function.reads[1], axis=axes)


def _servo(
    mujoco: Any, model: Any, drives: Sequence[_Drive], joints: Sequence[NamedJoint]
) -> Motor:
    """With the feedback of rates as damping, so that it may be as strong as it is, and the ranges
    of all forces as limits. Each actuator has a coordinate of its own."""
    drives = sorted(drives, key=lambda drive: drive.place)
    function = _actuators(mujoco, model, drives, [drive.place for drive in drives], joints)
    gear, forces = np.array(function.gear, float), np.array(function.force_range, float)
    least, greatest = np.array(function.torque_range, float).T[..., None]
    limits = np.clip(np.sort(gear[:, None] * forces, axis=1), least, greatest)
    limits = np.clip(limits, -_ENDLESS, _ENDLESS)
    endless = np.full(limits.shape, [-_ENDLESS, _ENDLESS])
    rates = [_feedback(mujoco, model, drive.actuator) for drive in drives]
    given = eqx.tree_at(
        lambda function: (function.bias, function.force_range, function.torque_range),
        dataclasses.replace(function, reads=(function.reads[0], False)),
        (function.bias.at[:, 2].set(0.0), as_jax(endless), as_jax(endless)),
    )
    own, axes = zip(*(drive.place for drive in drives), strict=True)
    limited = np.any(np.abs(limits) < _ENDLESS)
    damping, bounds = as_jax(rates * gear**2), as_jax(limits) if limited else None
    return Motor(own, given, False, axes, damping=damping, limits=bounds)


def _feedback(mujoco: Any, model: Any, actuator: int) -> float:
    """By how much its force is less for its velocity; 0 where its gain depends on that, too."""
    _, gain, bias, _ = _kinds(mujoco, model, actuator)
    if bias != "affine" or (gain != "fixed" and model.actuator_gainprm[actuator, 2]):
        return 0.0
    return max(0.0, -float(model.actuator_biasprm[actuator, 2]))


def _actuators(
    mujoco: Any,
    model: Any,
    drives: Sequence[_Drive],
    driven: Sequence[tuple[int, int]],
    joints: Sequence[NamedJoint],
) -> Actuators:
    numbers = [drive.actuator for drive in drives]
    gains, biases = np.zeros((2, len(numbers), 3))
    for row, actuator in enumerate(numbers):
        _, gain, bias, _ = _kinds(mujoco, model, actuator)
        width = 1 if gain == "fixed" else 3
        gains[row, :width] = model.actuator_gainprm[actuator, :width]
        if bias == "affine":
            biases[row] = model.actuator_biasprm[actuator, :3]
    controls = [_controls_of(model, actuator)[0] for actuator in numbers]
    clamped = not disabled(mujoco, model, "CLAMPCTRL")
    reads = [bool(gains[:, order].any() or biases[:, order].any()) for order in (1, 2)]
    own: list[Any] = [joints[joint].joint for joint, _ in driven]
    sources = [joints[joint].sources[axis] for joint, axis in driven]
    return Actuators(
        joints=tuple(own),
        axes=tuple(axis for _, axis in driven),
        driven=tuple(driven.index(drive.place) for drive in drives),
        control=tuple(controls),
        n_controls=int(model.nu),
        reads=(reads[0], reads[1]),
        gear=as_jax([model.actuator_gear[_output(model, number), 0] for number in numbers]),
        gain=as_jax(gains),
        bias=as_jax(biases),
        control_range=_range(
            model.actuator_ctrlrange, model.actuator_ctrllimited, controls, clamped
        ),
        force_range=_range(model.actuator_forcerange, model.actuator_forcelimited, numbers),
        torque_range=_range(model.jnt_actfrcrange, model.jnt_actfrclimited, sources),
    )


def _unknown(mujoco: Any, model: Any, actuator: int, driven: Any) -> list[str]:
    """What jaxrb does not know of an actuator."""
    transmission, gain, bias, dynamics = _kinds(mujoco, model, actuator)
    why = []
    if transmission not in ("joint", "jointinparent"):
        why.append(f"it acts on a {transmission}; known are motors in joints")
    elif driven is None:
        why.append("its joint is none that has a coordinate, such as a Hinge or a Slider")
    affine = gain in ("fixed", "affine") and bias in ("none", "affine")
    if not affine or _controls_of(model, actuator)[1] != 1:
        why.append("its force is no affine function of one control, length and velocity")
    if dynamics != "none":
        why.append("it has an activation, a state of its own")
    for what in ("delay", "damping", "dampingpoly", "armature"):
        if np.any(of(model, f"actuator_{what}", actuator)):
            why.append(f"its {what} is not known")
    return why


def _kinds(mujoco: Any, model: Any, actuator: int) -> list[str]:
    """Transmission, gain, bias and dynamics of an actuator, as MJCF writes them."""
    fields = {"Trn": "trntype", "Gain": "gaintype", "Bias": "biastype", "Dyn": "dyntype"}
    kinds = [
        getattr(mujoco, f"mjt{kind}")(int(getattr(model, f"actuator_{field}")[actuator]))
        for kind, field in fields.items()
    ]
    return [kind.name.split("_")[1].lower() for kind in kinds]


def _is_off(mujoco: Any, model: Any, actuator: int) -> bool:
    group = int(model.actuator_group[actuator])
    off = 0 <= group < 31 and bool(int(model.opt.disableactuator) & (1 << group))
    return off or disabled(mujoco, model, "ACTUATION")


def _range(
    ranges: Any, limited: Any, indices: Sequence[Any], counts: bool = True
) -> Float[Array, "n 2"]:
    """The ranges of some, endless of those without."""
    index = np.array(indices, int)
    kept = np.array(limited)[index].astype(bool)[:, None] & counts
    return as_jax(np.where(kept, np.array(ranges)[index], [-_ENDLESS, _ENDLESS]))


def _number(model: Any) -> int:
    # Before MuJoCo 4 each actuator had one control.
    return int(getattr(model, "nactuator", model.nu))


def _controls_of(model: Any, actuator: int) -> tuple[int, int]:
    """The first control of an actuator, and how many it has."""
    first = getattr(model, "actuator_ctrladr", None)
    if first is None:
        return actuator, 1
    return int(first[actuator]), int(model.actuator_ctrlnum[actuator])


def _output(model: Any, actuator: int) -> int:
    """The row of its gear."""
    first = getattr(model, "actuator_outadr", None)
    return actuator if first is None else int(first[actuator])
