"""Supersession: from what each decision says about itself to what holds today."""

from filemem.chain.graph import DEMOTING, Chain, Flaw, Graph, Node
from filemem.chain.resolve import never, resolve

__all__ = ["DEMOTING", "Chain", "Flaw", "Graph", "Node", "never", "resolve"]
