import torch
from torch import nn, optim

torch.manual_seed(31)

RATE, FRAMES, MELS = 1000, 20, 16


def clips(n):
    """Chirps: direction of the sweep and shape of the envelope give six classes."""
    y = torch.randint(6, (n,))
    t = torch.linspace(0, 1, 640)[None]
    f0 = 60 + 60 * torch.rand(n, 1)
    sweep = torch.tensor([-1.0, 0.0, 1.0])[y % 3][:, None] * (90 + 30 * torch.rand(n, 1))
    f0 = f0 + (sweep < 0) * -sweep
    wave = torch.sin(6.2832 * (f0 * t + 0.5 * sweep * t ** 2) + 6.28 * torch.rand(n, 1))
    env = torch.where((y < 3)[:, None], t, 1 - t)
    return wave * env + 0.2 * torch.randn(n, 640), y


def spectrogram(w):
    win = torch.hann_window(64)
    s = torch.stft(w, 64, hop_length=32, window=win, center=True, return_complex=True).abs()
    s = s[:, 1:33, :FRAMES].reshape(len(w), MELS, 2, FRAMES).mean(2)
    return (s + 1e-3).log()


class Recognizer(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.rnn = nn.GRU(MELS, hidden)
        self.head = nn.Linear(2 * hidden, 6)

    def forward(self, spec):
        B, M, T = spec.shape
        seq = spec.contiguous().view(T, B, M)
        out, h = self.rnn(seq)
        return self.head(torch.cat([out.mean(0), h[-1]], 1))


wav, lab = clips(2000)
wav_t, lab_t = clips(500)
spec, spec_t = spectrogram(wav), spectrogram(wav_t)
mu, sd = spec.mean(), spec.std()
spec, spec_t = (spec - mu) / sd, (spec_t - mu) / sd

net = Recognizer()
opt = optim.Adam(net.parameters(), lr=3e-3)
ce = nn.CrossEntropyLoss()
B = 50
for ep in range(10):
    order = torch.randperm(len(spec))
    s = 0.0
    for k in range(0, len(order), B):
        j = order[k:k + B]
        loss = ce(net(spec[j]), lab[j])
        net.zero_grad()
        loss.backward()
        opt.step()
        s += loss.item() * B
    print("epoch", ep, "loss", round(s / len(order), 4))

net.eval()
with torch.no_grad():
    hits = sum((net(a).argmax(1) == b).sum().item() for a, b in zip(spec_t.split(B), lab_t.split(B)))
print("final accuracy", hits / len(lab_t))
