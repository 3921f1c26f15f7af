"""Contact geometry and kinematics."""

from .base import (
    AbstractContacts as AbstractContacts,
    AbstractContactSet as AbstractContactSet,
    ContactKinematics as ContactKinematics,
)
from .concatenated import all_contacts as all_contacts
from .half_spaces import AtHalfSpaces as AtHalfSpaces, HalfSpaceContacts as HalfSpaceContacts
from .joint_limits import JointLimits as JointLimits, Stops as Stops
from .moving import Moving as Moving, moves as moves, spanning as spanning
from .near import NearContacts as NearContacts, alone as alone, is_large as is_large
from .obstacles import flat_at_rest as flat_at_rest
from .single import SingleContact as SingleContact
from .soon import Travel as Travel
