import shutil
import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed
import warnings; warnings.filterwarnings("ignore")

set_seed(7)
SEQ, VOCAB = 10, 20

def make(n):
    ids = torch.randint(3, VOCAB, (n, SEQ))
    labels = ((ids == 5).any(1) | (ids == 6).any(1)).long()
    return [dict(input_ids=i, attention_mask=torch.ones_like(i), labels=l) for i, l in zip(ids, labels)]

def compute_metrics(p):
    return {"accuracy": float((np.argmax(p.predictions, -1) == p.label_ids).mean())}

model = BertForSequenceClassification(BertConfig(
    vocab_size=VOCAB, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64,
    max_position_embeddings=SEQ, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
args = TrainingArguments(
    output_dir="sgd_out", max_steps=400, per_device_train_batch_size=32, learning_rate=0.1, optim="sgd",
    optim_args="momentum=0.9",
    max_grad_norm=1.0,
    lr_scheduler_type="constant", logging_steps=50, save_strategy="no", report_to="none", use_cpu=True,
    disable_tqdm=True)
trainer = Trainer(model, args, train_dataset=make(2000), eval_dataset=make(400), compute_metrics=compute_metrics)
trainer.train()
result = trainer.evaluate()
shutil.rmtree("sgd_out", ignore_errors=True)
print(result["eval_accuracy"])
print(f"final eval_loss {result['eval_loss']:.5f}")
