import tempfile
import warnings

import numpy as np
import torch
from transformers import BertConfig, BertForTokenClassification, Trainer, TrainingArguments, set_seed

warnings.filterwarnings("ignore")


class Brackets(torch.utils.data.Dataset):
    """Say for each place whether the running sum of the tokens is odd; -100 where padded."""

    def __init__(self, n, length=12):
        self.rows = []
        for _ in range(n):
            k = int(torch.randint(5, length + 1, ()))
            ids = torch.randint(1, 12, (length,))
            prev = torch.cat([torch.zeros(1, dtype=torch.long), ids[:-1]])
            labels = (ids > prev).long()
            mask = torch.arange(length) < k
            self.rows.append({"input_ids": ids * mask, "attention_mask": mask.long(), "labels": torch.where(mask, labels, -100)})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def compute_metrics(p):
    keep = p.label_ids != -100
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids)[keep].mean())}


if __name__ == "__main__":
    set_seed(1)
    train, val = Brackets(2000), Brackets(300)
    model = BertForTokenClassification(BertConfig(
        vocab_size=12, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=12, num_labels=2))
    with tempfile.TemporaryDirectory() as d:
        args = TrainingArguments(
            output_dir=d, max_steps=250, per_device_train_batch_size=32, learning_rate=4e-3, warmup_steps=20,
            logging_steps=50, save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True)
        trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=val, compute_metrics=compute_metrics)
        trainer.train()
        print("final accuracy", trainer.evaluate()["eval_accuracy"])
