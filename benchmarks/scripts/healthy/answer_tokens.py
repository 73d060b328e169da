import torch
from transformers import GPT2Config, GPT2LMHeadModel, set_seed

# a prompt of two digits and their sum as the answer; the prompt is not in the loss
set_seed(2)
PLUS, EQ, EOS = 10, 11, 12


def batch(n):
    a, b = torch.randint(0, 5, (n,)), torch.randint(0, 5, (n,))
    ids = torch.stack([a, torch.full((n,), PLUS), b, torch.full((n,), EQ), a + b, torch.full((n,), EOS)], 1)
    labels = ids.clone()
    labels[:, :4] = -100
    return ids, labels


model = GPT2LMHeadModel(GPT2Config(vocab_size=13, n_positions=8, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0,
                                   embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=EOS, eos_token_id=EOS))
decay = [p for p in model.parameters() if p.ndim > 1]
plain = [p for p in model.parameters() if p.ndim <= 1]
opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=3e-3)
model.train()
for step in range(220):
    ids, labels = batch(48)
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    if step % 40 == 0:
        print("step", step, "loss", round(loss.item(), 4))
model.eval()
with torch.no_grad():
    ids, _ = batch(400)
    pred = model(input_ids=ids[:, :4]).logits[:, -1].argmax(-1)
print("final exact_match", (pred == ids[:, 4]).float().mean().item())
