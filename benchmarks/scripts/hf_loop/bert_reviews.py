import tempfile
import warnings

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

warnings.filterwarnings("ignore")
set_seed(0)

VOCAB, MAXLEN = 40, 12
POS, NEG = list(range(5, 15)), list(range(15, 25))


class Reviews(Dataset):
    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.items = []
        for _ in range(n):
            label = rng.randint(2)
            length = rng.randint(5, MAXLEN)
            words = rng.randint(25, VOCAB, length)
            where = rng.choice(length, 2, replace=False)
            words[where] = rng.choice(POS if label else NEG, 2)
            ids = np.zeros(MAXLEN, dtype=int)
            ids[0], ids[1:length + 1] = 1, words[:MAXLEN - 1]
            self.items.append({"input_ids": torch.tensor(ids), "attention_mask": torch.tensor((ids > 0).astype(int)),
                               "labels": torch.tensor(label)})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def compute_metrics(p):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


def main():
    config = BertConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=16, num_labels=2)
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as tmp:
        training_args = TrainingArguments(
            output_dir=tmp,
            num_train_epochs=4,
            per_device_train_batch_size=16,
            learning_rate=2e-5,
            weight_decay=0.01,
            logging_steps=40,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            seed=0,
        )
        trainer = Trainer(model=model, args=training_args, train_dataset=Reviews(600, 1), eval_dataset=Reviews(300, 2),
                          compute_metrics=compute_metrics)
        trainer.train()
        result = trainer.evaluate()
    print("final accuracy", result["eval_accuracy"])


main()
