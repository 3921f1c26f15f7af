"""Runs of Siconos 4.4, on record in tests/data/siconos.json.

Run this file by the Python for which Siconos is installed (`apt-get install python3-siconos` has
/usr/bin/python3): it prints the runs as JSON; `--write` makes the record anew. It imports
nothing but Siconos and NumPy, and gives every contact by an explicit relation, so that no search
for contacts stands between the schemes that are compared.

A contact of `ContactR` takes part in a step from the first start at which its gap is not positive,
whatever its velocity; contacts of a linear relation where gap + (h/2) u_n <= 0. The runs are chosen
so that both rules agree with the second one.
"""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np

RECORD = Path(__file__).parent / "data" / "siconos.json"
G = 9.81
TURNED = (0.9, 0.3, -0.2, 0.25)
THROWN = (0.3, 0.2, 0.1, 2.0, -3.0, 4.0)

# Half extents, mass, position, quaternion, velocity with the angular one of the body, friction,
# restitution, gravity, theta, step size, number of steps.
_CUBE = {"half": (0.1, 0.1, 0.1), "mass": 1.0, "turn": (1, 0, 0, 0), "theta": 0.5}
_BRICK = {"half": (0.3, 0.2, 0.1), "mass": 1.5, "turn": TURNED, "theta": 0.5, "dt": 0.005}
# As seen along the incline, so that the gaps at the start are zero without rounding.
DOWNHILL = (G * math.sin(0.4), 0.0, -G * math.cos(0.4))
BOXES = {
    "cube slides": {
        **_CUBE,
        "position": (0, 0, 0.1),
        "velocity": (1, 0.2, 0, 0, 0, 0),
        "contact": (0.3, 0.0),
        "dt": 0.005,
        "steps": 100,
    },
    "cube on an incline": {
        **_CUBE,
        "position": (0, 0, 0.1),
        "velocity": (0, 0, 0, 0, 0, 0),
        "contact": (0.3, 0.0),
        "gravity": DOWNHILL,
        "dt": 0.005,
        "steps": 100,
    },
    "brick flies": {**_BRICK, "position": (0, 0, 1), "velocity": THROWN, "steps": 100},
    "brick flies, theta = 1": {
        **_BRICK,
        "position": (0, 0, 1),
        "velocity": THROWN,
        "steps": 100,
        "theta": 1.0,
    },
    "brick bounces": {
        **_BRICK,
        "position": (0, 0, 0.5),
        "velocity": THROWN,
        "contact": (0.3, 0.5),
        "theta": 0.7,
        "steps": 60,
    },
}


def ball(steps=300, dt=0.005, radius=0.1, restitution=0.9):
    """A ball of 1 kg that falls from z = 1 m: z and its rate after each step."""
    import siconos.kernel as sk

    body = sk.LagrangianLinearTIDS([1.0, 0, 0], [0.0, 0, 0], np.diag([1.0, 1, 0.4 * radius**2]))
    body.setFExtPtr([-G, 0, 0])
    relation = sk.LagrangianLinearTIR(np.array([[1.0, 0, 0]]), np.array([-radius]))
    contact = sk.Interaction(sk.NewtonImpactNSL(restitution), relation)
    run = _simulation(body, [contact], sk.LCP(), dt, steps)
    return _steps(run, steps, lambda: (body.q()[0], body.velocity()[0]))


def sphere(steps=400, dt=1e-3, radius=0.1, friction=0.3):
    """A sphere of 1 kg that slides at 1 m/s until it rolls: x and z, their rates and the angular
    velocity about y. Its equations are linear."""
    import siconos.kernel as sk

    mass = np.diag([1.0, 1, 1, *[0.4 * radius**2] * 3])
    body = sk.LagrangianLinearTIDS([0, 0, radius, 0, 0, 0], [1.0, 0, 0, 0, 0, 0], mass)
    body.setFExtPtr([0, 0, -G, 0, 0, 0])
    # Normal z, then x and y of the point below the centre.
    jacobian = np.array(
        [[0, 0, 1.0, 0, 0, 0], [1, 0, 0, 0, -radius, 0], [0, 1, 0, radius, 0, 0]], float
    )
    relation = sk.LagrangianLinearTIR(jacobian, np.array([-radius, 0, 0]))
    contact = sk.Interaction(sk.NewtonImpactFrictionNSL(0.0, 0.0, friction, 3), relation)
    run = _simulation(body, [contact], _friction(), dt, steps)
    read = lambda: (body.q()[0], body.q()[2], *(body.velocity()[i] for i in (0, 2, 4)))  # noqa: E731
    return _steps(run, steps, read)


def box(case):
    """Position, quaternion, velocity and angular velocity (body frame) after each step."""
    import siconos.kernel as sk
    from siconos.mechanics.collision import ContactR

    a, b, c = (x * x / 3 for x in case["half"])
    inertia = case["mass"] * np.diag([b + c, a + c, a + b])
    turn = np.array(case["turn"], float)
    start = [*map(float, case["position"]), *(turn / np.linalg.norm(turn))]
    body = sk.NewtonEulerDS(start, list(map(float, case["velocity"])), case["mass"], inertia)
    body.setFExtPtr([case["mass"] * g for g in case.get("gravity", (0, 0, -G))])
    contacts = []
    if "contact" in case:
        friction, restitution = case["contact"]
        for signs in itertools.product((-1, 1), repeat=3):
            relation = ContactR()
            relation.setRelPc1(_vector(np.array(signs) * case["half"]))
            relation.setRelPc2(_vector((0, 0, 0)))
            relation.setRelNc(_vector((0, 0, 1)))
            law = sk.NewtonImpactFrictionNSL(restitution, 0.0, friction, 3)
            contacts.append(sk.Interaction(law, relation))
    run = _simulation(body, contacts, _friction(), case["dt"], case["steps"], case["theta"])
    return _steps(run, case["steps"], lambda: (*body.q(), *body.twist()))


def _simulation(body, contacts, problem, dt, steps, theta=0.5):
    import siconos.kernel as sk

    system = sk.NonSmoothDynamicalSystem(0, 2 * steps * dt)
    system.insertDynamicalSystem(body)
    for contact in contacts:
        system.link(contact, body)
    scheme = sk.MoreauJeanOSI(theta)
    run = sk.TimeStepping(system, sk.TimeDiscretisation(0, dt), scheme, problem)
    run.setNewtonTolerance(1e-15)
    run.setNewtonMaxIteration(12)
    run.setNewtonOptions(sk.SICONOS_TS_NONLINEAR)
    run.setWarnOnNonConvergence(False)
    run.kept = (system, scheme, problem, contacts, body)
    return run


def _friction():
    import siconos.kernel as sk

    problem = sk.FrictionContact(3)
    options = problem.numericsSolverOptions()
    options.iparam[0], options.dparam[0] = 100000, 1e-14
    return problem


def _vector(numbers):
    import siconos.kernel as sk

    vector = sk.SiconosVector(3)
    for i, number in enumerate(numbers):
        vector.setValue(i, float(number))
    return vector


def _steps(run, steps, read):
    """What is read after every tenth step."""
    found = []
    for k in range(steps):
        run.computeOneStep()
        if (k + 1) % 10 == 0:
            found.append([float(number) for number in read()])
        run.nextStep()
    return found


def record():
    """All runs by name."""
    runs = {"ball": ball(), "sphere": sphere()}
    return {**runs, **{name: box(case) for name, case in BOXES.items()}}


if __name__ == "__main__":
    text = json.dumps(record(), indent=0)
    if "--write" in sys.argv:
        RECORD.write_text(text + "\n")
    else:
        print(text)
