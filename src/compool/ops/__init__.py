"""The operator as pure functions, in the order that data goes through them.

score → select → components → merge → connect, and lift for the way back; contract stands for select and components in
edge pooling. They do not check their input, and an index out of range can crash the process: the modules of
:mod:`compool.nn` check.
"""

from compool.ops.components import Components, components, connected_components
from compool.ops.connect import connect
from compool.ops.contract import Contraction, contract
from compool.ops.lift import lift
from compool.ops.merge import merge, merge_all, spread
from compool.ops.score import score
from compool.ops.select import Selection, select

__all__ = [
    "Components",
    "Contraction",
    "Selection",
    "components",
    "connect",
    "connected_components",
    "contract",
    "lift",
    "merge",
    "merge_all",
    "score",
    "select",
    "spread",
]
