"""Train a small network on handwritten digits: argparse, PyTorch, checkpoints, metrics as lines of JSON."""

import json
import os
import time
from pathlib import Path

import torch
from seml import Experiment
from sklearn.datasets import load_digits
from torch import nn

ex = Experiment()


@ex.automain
def main(_run, lr, hidden, momentum, epochs, seed, checkpoints):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    order = torch.randperm(len(images))
    train, held_out = order[:1400], order[1400:]

    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    loss_of = nn.CrossEntropyLoss()

    newest, epochs_done = Path(checkpoints, str(_run._id), "newest.pt"), 0
    if newest.exists():
        saved = torch.load(newest)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["random"])
        epochs_done = saved["epoch"]

    saved_at = time.monotonic()
    for epoch in range(epochs_done + 1, epochs + 1):
        for batch in train[torch.randperm(len(train))].split(64):
            optimizer.zero_grad()
            loss_of(model(images[batch]), labels[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            outputs = model(images[held_out])
        accuracy = (outputs.argmax(1) == labels[held_out]).double().mean().item()
        print(json.dumps({"epoch": epoch, "loss": loss_of(outputs, labels[held_out]).item(), "accuracy": accuracy}))
        if time.monotonic() - saved_at > 1 or epoch == epochs:
            newest.parent.mkdir(parents=True, exist_ok=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "random": torch.get_rng_state(), "epoch": epoch}, newest.with_suffix(".part"))
            os.replace(newest.with_suffix(".part"), newest)
            saved_at = time.monotonic()
    return {"loss": loss_of(outputs, labels[held_out]).item(), "accuracy": accuracy}
