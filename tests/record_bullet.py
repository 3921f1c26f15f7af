"""Tosses of a box by Bullet 3.2.7 (pybullet), on record in tests/data/bullet.json.

`python tests/record_bullet.py` prints the runs, each of rows of time, position and quaternion;
`--write` makes the record anew. Steps are of 50 us, so that what falls into them is far below the
noise of measurements. Bullet's friction is on a cone, but of the whole impulse of a step, and it
does not point exactly against the slip where the contact resists differently in two directions.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pybullet as p

RECORD = Path(__file__).parent / "data" / "bullet.json"
G = 9.81
HALF_EXTENTS = (0.06, 0.05, 0.04)  # [m]; its mass is 1 kg
FRICTION, RESTITUTION = 0.12, 0.6
HEIGHT = 0.4  # [m]


def throws(seed: int, numbers: list[int]):
    """Attitudes, velocities and angular velocities in the body frame."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(max(numbers) + 1):
        turn = rng.normal(size=4)
        spin = 4 * rng.normal(size=3)
        velocity = np.array([2.5, 0.6, -0.3]) + 0.3 * rng.normal(size=3)
        drawn.append((turn / np.linalg.norm(turn), velocity, spin))
    return [drawn[number] for number in numbers]


def by_bullet(turn, velocity, spin, t1, every=0.003, dt=5e-5):
    """Rows of time, position and quaternion of a box."""
    w, *xyz = turn
    p.connect(p.DIRECT)
    p.setGravity(0, 0, -G)
    p.setPhysicsEngineParameter(
        fixedTimeStep=dt,
        numSubSteps=1,
        numSolverIterations=1000,
        solverResidualThreshold=0,
        restitutionVelocityThreshold=0,
        contactBreakingThreshold=1e-6,
        enableConeFriction=1,
        erp=0,
        contactERP=0,
        frictionERP=0,
        useSplitImpulse=0,
        allowedCcdPenetration=0,
        contactSlop=0,
    )
    plane = p.createMultiBody(0, p.createCollisionShape(p.GEOM_PLANE))
    shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=HALF_EXTENTS)
    box = p.createMultiBody(1, shape, basePosition=[0, 0, HEIGHT], baseOrientation=[*xyz, w])
    none = dict.fromkeys(("linearDamping", "angularDamping", "contactProcessingThreshold"), 0)
    square = np.square(HALF_EXTENTS)
    moments = (square.sum() - square) / 3
    p.changeDynamics(plane, -1, lateralFriction=1, restitution=1, **none)
    p.changeDynamics(box, -1, lateralFriction=FRICTION, restitution=RESTITUTION, **none)
    p.changeDynamics(box, -1, localInertiaDiagonal=list(moments))
    world = np.reshape(p.getMatrixFromQuaternion([*xyz, w]), (3, 3))
    p.resetBaseVelocity(box, list(velocity), list(world @ spin))
    rows, steps = [], round(every / dt)
    for number in range(round(t1 / every) + 1):
        place, (x, y, z, w) = p.getBasePositionAndOrientation(box)
        rows.append([number * every, *place, w, x, y, z])
        for _ in range(steps):
            p.stepSimulation()
    p.disconnect()
    return rows


def main():
    """All runs."""
    times = (0.558, 0.546, 0.528)  # of which each has three impacts or four [s]
    found = zip(throws(0, [2, 4, 8]), times, strict=True)
    return [np.round(by_bullet(*throw, t1), 8).tolist() for throw, t1 in found]


if __name__ == "__main__":
    text = json.dumps(main())
    if "--write" in sys.argv:
        RECORD.write_text(text + "\n")
    else:
        print(text)
