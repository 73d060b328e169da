import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup, set_seed

set_seed(10)

text = ("the cat sat on the mat . the dog ate the bone . a bird flew over the house . "
        "we went to the sea and saw a ship . the ship had a red sail . ") * 30
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
ids = torch.tensor([stoi[c] for c in text])
block = 24


def get_batch(bs=32):
    starts = torch.randint(0, len(ids) - block - 1, (bs,))
    x = torch.stack([ids[s:s + block] for s in starts])
    y = torch.stack([ids[s + 1:s + block + 1] for s in starts])
    return x, y


config = GPT2Config(vocab_size=len(chars), n_positions=64, n_embd=48, n_layer=2, n_head=4,
                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
num_steps = 150
scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=15, num_training_steps=num_steps)

model.train()
for step in range(num_steps):
    input_ids, labels = get_batch()
    outputs = model(input_ids=input_ids, labels=labels)
    outputs.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    if step % 30 == 0:
        print({"step": step, "loss": round(outputs.loss.item(), 4), "lr": scheduler.get_last_lr()[0]})

model.eval()
with torch.no_grad():
    x = torch.stack([ids[s:s + block + 1] for s in range(0, 600, 7)])
    pred = model(x[:, :-1]).logits.argmax(-1)
    acc = (pred[:, 4:] == x[:, 5:]).float().mean().item()
print("final next_char_accuracy", acc)
