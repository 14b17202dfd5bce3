"""Supersession: from what each decision says about itself to what holds today."""

from filemem.chain.graph import DEMOTING, Chain, Family, Flaw, Graph, Node
from filemem.chain.resolve import resolve
