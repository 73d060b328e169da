import random

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments, set_seed
from transformers.utils import logging as hf_logging

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
set_seed(17)

TOPICS = 8
VOCAB = 200


def document(topic):
    n = random.randint(8, 20)
    toks = [random.randint(2 + topic * 12, 13 + topic * 12) if random.random() < 0.4
            else random.randint(100, VOCAB - 1) for _ in range(n)]
    return {"input_ids": [1] + toks, "labels": topic}


def collate(batch):
    width = max(len(b["input_ids"]) for b in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros(len(batch), width, dtype=torch.long)
    for i, b in enumerate(batch):
        ids[i, :len(b["input_ids"])] = torch.tensor(b["input_ids"])
        mask[i, :len(b["input_ids"])] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([b["labels"] for b in batch])}


def compute_metrics(p):
    return {"accuracy": float((np.argmax(p.predictions, -1) == p.label_ids).mean())}


train_ds = [document(i % TOPICS) for i in range(1600)]
eval_ds = [document(i % TOPICS) for i in range(400)]

config = BertConfig(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                    intermediate_size=128, max_position_embeddings=32, num_labels=TOPICS, pad_token_id=0)
model = BertForSequenceClassification(config)

training_args = TrainingArguments(
    output_dir="/tmp/hf_topics",
    per_device_train_batch_size=32,
    per_device_eval_batch_size=100,
    num_train_epochs=3,
    learning_rate=1e-3,
    lr_scheduler_type="linear",
    warmup_steps=2000,
    weight_decay=0.01,
    logging_steps=25,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
    seed=17,
)
trainer = Trainer(model=model, args=training_args, train_dataset=train_ds, eval_dataset=eval_ds,
                  data_collator=collate, compute_metrics=compute_metrics)
trainer.remove_callback(PrinterCallback)
trainer.train()
for row in trainer.state.log_history:
    if "loss" in row:
        print("step", row["step"], "loss", round(float(row["loss"]), 4))
metrics = trainer.evaluate()
print("final accuracy", round(metrics["eval_accuracy"], 4))
