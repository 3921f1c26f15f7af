"""Fitting and control: parameters with charts, fits to measured motions, shooting, optimal control,
and Jacobians of motions."""

from .._help import publish
from .charts import (
    AbstractChart as AbstractChart,
    Bounded as Bounded,
    Fixed as Fixed,
    PhysicalInertia as PhysicalInertia,
    Positive as Positive,
    Real as Real,
    Rotation as Rotation,
    UnitVector as UnitVector,
)
from .control_inputs import (
    AbstractControl as AbstractControl,
    Inputs as Inputs,
    Kick as Kick,
    Wrench as Wrench,
)
from .control_solution import ControlSolution as ControlSolution
from .data import AbstractData as AbstractData, Points as Points, Poses as Poses
from .estimates import Estimate as Estimate
from .fit import Fit as Fit, Starts as Starts, fit as fit
from .flow_map import FlowMap as FlowMap, flow_map as flow_map
from .gauss_newton_shooting import GaussNewtonShooting as GaussNewtonShooting
from .lyapunov import Lyapunov as Lyapunov, lyapunov as lyapunov
from .mpc import mpc_step as mpc_step
from .optimal_control import OptimalControl as OptimalControl
from .parameters import Parameters as Parameters
from .residuals import pose_error as pose_error
from .results import RESULTS as RESULTS
from .sampling import CEM as CEM, MPPI as MPPI
from .shoot import Shots as Shots, shoot as shoot
from .solve import solve as solve

publish(__name__)
