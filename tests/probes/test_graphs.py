import torch
from torch import nn

from sigmascope.probes import Subject
from sigmascope.probes import graphs as room

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.skip = nn.Linear(4, 6), nn.Linear(6, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.b(self.a(x).relu()) + self.skip(x)


class Branches(nn.Module):
    """Takes a way that depends on the data, which torch.export refuses."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.a(x)
        return self.b(x) if x.sum() > -1e9 else x


EXPECTED = {
    ("(input)", "a.weight"),
    ("(input)", "skip.weight"),
    ("a.weight", "b.weight"),
    ("b.weight", "(output)"),
    ("skip.weight", "(output)"),
}


def test_residual_block_by_both_ways():
    model, x = Block(), torch.randn(3, 4)
    found = Subject(model, x).graph
    assert found.how == "torch.export"
    assert set(found.edges) == EXPECTED
    nodes, outputs = room._differentiated(model, x)
    assert set(room._edges(nodes, outputs)) == EXPECTED


def test_falls_back_with_the_reason():
    found = Subject(Branches(), torch.randn(3, 4)).graph
    assert found.how.startswith("autograd (torch.export failed: ")
    assert set(found.edges) == {
        ("(input)", "a.weight"),
        ("a.weight", "b.weight"),
        ("b.weight", "(output)"),
    }


def test_embedding_and_tied_head():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.mix, self.head = (
                nn.Embedding(7, 4),
                nn.Linear(4, 4),
                nn.Linear(4, 7, bias=False),
            )
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.mix(self.embed(ids)))

    model, ids = Tied(), torch.randint(0, 7, (2, 3))
    expected = {
        ("(input)", "embed.weight"),
        ("embed.weight", "mix.weight"),
        ("mix.weight", "embed.weight"),
        ("embed.weight", "(output)"),
    }
    assert set(Subject(model, ids).graph.edges) == expected
    nodes, outputs = room._differentiated(model, ids)
    assert set(room._edges(nodes, outputs)) == expected
