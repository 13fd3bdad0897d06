"""Train a linear classifier on tumour data: a Hydra app that writes its metrics as CSV into its run folder."""

import csv
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    """Train one classifier, and write its validation loss and accuracy after every epoch."""
    inputs, labels = load_breast_cancer(return_X_y=True)
    train, held_out, train_labels, true = train_test_split(inputs, labels, test_size=0.3, random_state=config.seed)
    if config.data.scale:
        scaler = StandardScaler().fit(train)
        train, held_out = scaler.transform(train), scaler.transform(held_out)
    model = SGDClassifier(
        loss="log_loss",
        alpha=config.optim.l2,
        learning_rate="constant",
        eta0=config.optim.lr,
        random_state=config.seed,
    )
    folder = Path(HydraConfig.get().runtime.output_dir)
    with (folder / "metrics.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, ["epoch", "loss", "accuracy"])
        rows.writeheader()
        for epoch in range(1, config.epochs + 1):
            model.partial_fit(train, train_labels, classes=[0, 1])
            loss = log_loss(true, model.predict_proba(held_out)[:, 1])
            rows.writerow({"epoch": epoch, "loss": loss, "accuracy": model.score(held_out, true)})
            file.flush()


if __name__ == "__main__":
    main()
