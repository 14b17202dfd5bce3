"""Supersession: from what each decision says about itself to what holds today."""

from filemem.chain.graph import DEMOTING, NO_FACTS, Chain, Facts, Family, Flaw, Graph, Node
from filemem.chain.resolve import build_graph
