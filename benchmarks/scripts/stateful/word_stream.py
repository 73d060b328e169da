# word-level LSTM language model, in the manner of the well-known example
import argparse
import math
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument('--emsize', type=int, default=24)
parser.add_argument('--nhid', type=int, default=48)
parser.add_argument('--lr', type=float, default=0.01)
parser.add_argument('--clip', type=float, default=0.25)
parser.add_argument('--epochs', type=int, default=3)
parser.add_argument('--batch_size', type=int, default=20)
parser.add_argument('--bptt', type=int, default=15)
parser.add_argument('--seed', type=int, default=1111)
args = parser.parse_args()
torch.manual_seed(args.seed)

# corpus from a sparse grammar
ntokens = 30
follow = torch.stack([torch.randperm(ntokens)[:3] for _ in range(ntokens)])


def generate(length):
    out, cur = [], 0
    picks = torch.randint(0, 3, (length,)).tolist()
    table = follow.tolist()
    for p in picks:
        cur = table[cur][p]
        out.append(cur)
    return torch.tensor(out)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(-1, bsz).contiguous()


train_data = batchify(generate(16000), args.batch_size)
test_data = generate(2000).unsqueeze(1)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, inp, hidden=None):
        output, hidden = self.rnn(self.encoder(inp), hidden)
        return self.decoder(output).view(-1, ntokens), hidden


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].reshape(-1)


def repackage_hidden(h):
    return tuple(v.detach() for v in h)


model = RNNModel(ntokens, args.emsize, args.nhid)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
for epoch in range(1, args.epochs + 1):
    model.train()
    total_loss, hidden, n = 0., None, 0
    for i in range(0, train_data.size(0) - 1, args.bptt):
        data, targets = get_batch(train_data, i)
        if hidden is not None:
            hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        total_loss += loss.item()
        n += 1
    print('| epoch {:3d} | loss {:5.2f} | ppl {:8.2f}'.format(epoch, total_loss / n, math.exp(total_loss / n)))

model.eval()
with torch.no_grad():
    output, _ = model(test_data[:-1])
    print('final perplexity', math.exp(criterion(output, test_data[1:].view(-1)).item()))
