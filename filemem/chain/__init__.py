"""Supersession: which decisions are live, from what each decision states about itself."""

from filemem.chain.graph import DEMOTING, NO_FACTS, Chain, Facts, Family, Flaw, Graph, Node
from filemem.chain.resolve import build_graph
