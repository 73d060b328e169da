import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.utils import logging

logging.set_verbosity_error()
set_seed(3)
PAD, MASK, BASE, N = 0, 1, 2, 12


class Palindromes(Dataset):
    """Rows that read the same from both ends, with some places hidden."""

    def __init__(self, n, seed):
        r = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            half = r.integers(0, N, r.integers(4, 8)) + BASE
            row = np.concatenate([half, half[::-1]])
            hide = r.random(len(row)) < 0.2
            hide[r.integers(len(half))] = True
            hide[len(half):] &= ~hide[: len(half)][::-1]
            self.rows.append((row, hide))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row, hide = self.rows[i]
        return {"ids": np.where(hide, MASK, row), "labels": np.where(hide, row, -100)}


def collate(rows):
    width = 14
    ids = torch.full((len(rows), width), PAD)
    labels = torch.full((len(rows), width), -100)
    for i, r in enumerate(rows):
        left = (width - len(r["ids"])) // 2
        ids[i, left : left + len(r["ids"])] = torch.as_tensor(r["ids"])
        labels[i, left : left + len(r["ids"])] = torch.as_tensor(r["labels"])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def metrics(p):
    keep = p.label_ids != -100
    return {"accuracy": float((p.predictions.argmax(-1)[keep] == p.label_ids[keep]).mean())}


class Show(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kw):
        if logs and "loss" in logs:
            print(f"step {state.global_step} loss {float(logs['loss']):.4f}")


def main():
    cfg = BertConfig(vocab_size=N + BASE, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                     intermediate_size=128, max_position_embeddings=16, pad_token_id=PAD,
                     hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForMaskedLM(cfg)
    emb = model.bert.embeddings.position_embeddings
    torch.nn.init.orthogonal_(emb.weight)
    emb.weight.requires_grad_(False)
    args = TrainingArguments(output_dir=tempfile.mkdtemp(), max_steps=500, per_device_train_batch_size=32,
                             per_device_eval_batch_size=200, learning_rate=2e-3, lr_scheduler_type="cosine",
                             warmup_steps=40, weight_decay=0.01, logging_steps=100, save_strategy="no",
                             report_to="none", disable_tqdm=True, use_cpu=True, remove_unused_columns=False,
                             seed=3, label_names=["labels"])
    trainer = Trainer(model=model, args=args, train_dataset=Palindromes(8000, 0), eval_dataset=Palindromes(600, 1),
                      data_collator=collate, compute_metrics=metrics, callbacks=[Show()])
    trainer.train()
    print(f"final accuracy {trainer.evaluate()['eval_accuracy']:.4f}")


if __name__ == "__main__":
    main()
