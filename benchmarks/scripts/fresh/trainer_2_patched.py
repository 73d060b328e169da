import argparse
import random
import tempfile
from dataclasses import dataclass

import numpy as np
import torch
import transformers
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments

transformers.logging.set_verbosity_error()

PAD = 0
TOPICS = {
    "sport": ["goal", "team", "race", "coach"],
    "food": ["bread", "soup", "salt", "oven"],
    "music": ["chord", "drum", "tune", "choir"],
    "law": ["court", "judge", "claim", "bail"],
}
FILLER = ["the", "a", "on", "of", "with", "near", "old", "new", "big", "some", "went", "came", "saw", "and", "then", "very"]


def build_vocab():
    words = ["<pad>", "<cls>"] + FILLER + sum(TOPICS.values(), [])
    return {w: i for i, w in enumerate(words)}


def generate(n, seed):
    r = random.Random(seed)
    names = list(TOPICS)
    out = []
    for _ in range(n):
        label = r.randrange(len(names))
        text = [r.choice(FILLER) for _ in range(r.randint(5, 16))]
        text[r.randrange(len(text))] = r.choice(TOPICS[names[label]])
        if r.random() < 0.3:
            text.append(r.choice(FILLER))
        out.append({"text": ["<cls>"] + text, "label": label})
    return out


@dataclass
class PadCollator:
    vocab: dict
    length: int = 24

    def __call__(self, examples):
        batch = []
        for e in examples:
            ids = [self.vocab[w] for w in e["text"]]
            batch.append(ids + [PAD] * (self.length - len(ids)))
        ids = torch.tensor(batch)
        return {
            "input_ids": ids,
            "attention_mask": (ids != PAD).long(),
            "labels": torch.tensor([e["label"] for e in examples]),
        }


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=300)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=2)
    a = ap.parse_args()
    transformers.set_seed(a.seed)

    vocab = build_vocab()
    cfg = DistilBertConfig(vocab_size=len(vocab), dim=64, hidden_dim=128, n_layers=2, n_heads=4,
                           max_position_embeddings=24, num_labels=len(TOPICS))
    model = DistilBertForSequenceClassification(cfg)
    ta = TrainingArguments(output_dir=tempfile.mkdtemp(), max_steps=a.steps, learning_rate=a.lr,
                           per_device_train_batch_size=24, per_device_eval_batch_size=100,
                           lr_scheduler_type="cosine", warmup_steps=20, logging_steps=100, save_strategy="no",
                           report_to="none", disable_tqdm=True, use_cpu=True, remove_unused_columns=False, seed=a.seed)
    trainer = Trainer(
        model=model, args=ta, train_dataset=generate(3000, 0), eval_dataset=generate(600, 99),
        data_collator=PadCollator(vocab),
        compute_metrics=lambda p: {"acc": np.mean(np.argmax(p.predictions, -1) == p.label_ids)},
    )
    trainer.train()
    m = trainer.evaluate()
    print(f"final accuracy {m['eval_acc']:.4f}")


if __name__ == "__main__":
    main()
