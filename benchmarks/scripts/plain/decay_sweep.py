import random, numpy, torch
from torch import nn
from sklearn.datasets import load_digits

random.seed(0)
numpy.random.seed(0)
torch.manual_seed(0)

config = dict(
    lr=0.05,
    momentum=0.9,
    weight_decay=5.0,
    batch_size=64,
    epochs=15,
)

images, labels = load_digits(return_X_y=True)
images = torch.as_tensor(images, dtype=torch.float32).view(-1, 1, 8, 8)
images = (images - images.mean()) / images.std()
labels = torch.as_tensor(labels)
idx = torch.randperm(len(labels))
train, test = idx[:1400], idx[1400:]

model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 16, 10)
)
opt = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"], weight_decay=config["weight_decay"])
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=config["epochs"])
for epoch in range(config["epochs"]):
    order = train[torch.randperm(len(train))]
    losses = []
    for chunk in order.split(config["batch_size"]):
        loss = nn.functional.cross_entropy(model(images[chunk]), labels[chunk])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    sched.step()
    print(f"epoch {epoch:2d}  lr {sched.get_last_lr()[0]:.4f}  loss {sum(losses) / len(losses):.4f}")
with torch.no_grad():
    hits = (model(images[test]).argmax(1) == labels[test]).sum().item()
print("final accuracy", hits / len(test))
