import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForMaskedLM, get_linear_schedule_with_warmup, set_seed
from transformers.utils import logging

logging.set_verbosity_error()
set_seed(29)
VOCAB, LEN, MASK = 40, 14, 1


def sentence():
    start, step = torch.randint(0, 36, (1,)).item(), torch.randint(1, 3, (1,)).item()
    return torch.tensor([4 + (start + step * k) % 36 for k in range(LEN)])


def collate(batch):
    ids = torch.stack(batch)
    labels = ids.clone()
    chosen = torch.rand(ids.shape) < 0.2
    chosen[:, 0] |= ~chosen.any(1)
    labels[~chosen] = -100
    return {"input_ids": ids.masked_fill(chosen, MASK), "labels": labels}


data = [sentence() for _ in range(1280)]
loader = DataLoader(data, batch_size=32, shuffle=True, collate_fn=collate)
model = BertForMaskedLM(BertConfig(vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                                   intermediate_size=96, max_position_embeddings=16, hidden_dropout_prob=0.0,
                                   attention_probs_dropout_prob=0.0))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
epochs = 12
sched = get_linear_schedule_with_warmup(opt, 60, epochs * len(loader))
model.train()
for epoch in range(epochs):
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad()
    print("epoch", epoch, "loss", round(loss.item(), 4))
model.eval()
batch = collate([sentence() for _ in range(400)])
with torch.no_grad():
    pred = model(input_ids=batch["input_ids"]).logits.argmax(-1)
m = batch["labels"] != -100
print("final masked_accuracy", round((pred[m] == batch["labels"][m]).float().mean().item(), 4))
