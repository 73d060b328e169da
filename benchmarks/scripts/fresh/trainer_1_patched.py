import os
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

os.environ["TOKENIZERS_PARALLELISM"] = "false"
set_seed(13)

VOCAB = 60
CLS, SEP = 1, 2
HAPPY = list(range(10, 18))
GRUMPY = list(range(18, 26))


def make_sentence(rng):
    """A row of filler words with a few words of mood; the label is the mood that prevails."""
    n = rng.integers(12, 19)
    words = rng.integers(26, VOCAB, n)
    k_pos, k_neg = rng.choice(5, 2, replace=False)
    slots = rng.permutation(n)[: k_pos + k_neg]
    words[slots[:k_pos]] = rng.choice(HAPPY, k_pos)
    words[slots[k_pos:]] = rng.choice(GRUMPY, k_neg)
    return [CLS, *words.tolist(), SEP], int(k_pos > k_neg)


class MoodDataset(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.rows = [make_sentence(rng) for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, label = self.rows[i]
        return {"input_ids": ids, "labels": label}


def collate(features, width=20):
    ids = torch.zeros(len(features), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for r, f in enumerate(features):
        m = len(f["input_ids"])
        ids[r, :m] = torch.tensor(f["input_ids"])
        mask[r, :m] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([f["labels"] for f in features])}


def compute_metrics(p):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


config = BertConfig(
    vocab_size=VOCAB,
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=96,
    max_position_embeddings=32,
    num_labels=2,
    pad_token_id=0,
)
model = BertForSequenceClassification(config)

args = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=32,
    per_device_eval_batch_size=128,
    max_steps=260,
    learning_rate=2e-3,
    lr_scheduler_type="linear",
    warmup_steps=30,
    weight_decay=0.01,
    logging_steps=80,
    save_strategy="no",
    eval_strategy="no",
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
    seed=13,
)

trainer = Trainer(
    model=model,
    args=args,
    train_dataset=MoodDataset(4000, 0),
    eval_dataset=MoodDataset(800, 1),
    data_collator=collate,
    compute_metrics=compute_metrics,
)
trainer.train()
scores = trainer.evaluate()
print("eval loss", round(scores["eval_loss"], 4))
print("final accuracy", round(scores["eval_accuracy"], 4))
