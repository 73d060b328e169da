"""Train a tiny GPT-2 from scratch on arithmetic progressions."""
import tempfile
import warnings

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

warnings.filterwarnings("ignore")
VOCAB = 32


def progressions(n, length=16):
    start = torch.randint(0, VOCAB, (n, 1))
    stride = torch.randint(1, 6, (n, 1))
    return (start + stride * torch.arange(length)) % VOCAB


def main():
    set_seed(0)
    rows = [{"input_ids": r, "labels": r.clone()} for r in progressions(1200)]
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=16, n_embd=48, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=150,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=64,
            learning_rate=5e-3,
            warmup_steps=100_000,
            logging_steps=30,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(model=model, args=args, train_dataset=rows[:1000], eval_dataset=rows[1000:])
        trainer.train()
        print("final eval_loss", trainer.evaluate()["eval_loss"])


if __name__ == "__main__":
    main()
