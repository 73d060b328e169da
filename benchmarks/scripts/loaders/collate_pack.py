import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(70)


class Sequences(Dataset):
    """is the sum of the steps above zero?"""

    def __init__(self, n):
        self.data = []
        for _ in range(n):
            s = torch.randn(int(torch.randint(3, 15, (1,))), 2)
            self.data.append((s, int(s[:, 0].sum() > 0)))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]


def collate_fn(batch):
    seqs, labels = zip(*batch)
    lengths = torch.tensor([len(s) for s in seqs])
    lengths, order = lengths.sort(descending=True)
    padded = pad_sequence([seqs[i] for i in order], batch_first=True)
    return padded, lengths, torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.lstm = nn.LSTM(2, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        _, (h, _) = self.lstm(packed)
        return self.out(h[-1])


train_loader = DataLoader(Sequences(800), batch_size=32, shuffle=True, collate_fn=collate_fn)
test_set = Sequences(300)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(8):
    model.train()
    for x, lengths, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x, lengths), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())

model.eval()
correct = 0
with torch.no_grad():
    for seq, label in test_set:
        correct += model(seq[None], torch.tensor([len(seq)])).argmax().item() == label
print("final accuracy", correct / 300)
