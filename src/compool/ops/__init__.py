"""The operator as pure functions, in the order that data goes through them.

score → select → components → merge → connect, and lift for the way back. They check nothing: the modules of
:mod:`compool.nn` do.
"""

from compool.ops.components import Components, components, connected_components
from compool.ops.connect import connect
from compool.ops.lift import lift
from compool.ops.merge import merge, merge_all
from compool.ops.score import score
from compool.ops.select import Selection, select

__all__ = [
    "Components",
    "Selection",
    "components",
    "connect",
    "connected_components",
    "lift",
    "merge",
    "merge_all",
    "score",
    "select",
]
