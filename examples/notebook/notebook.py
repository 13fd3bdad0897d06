"""A notebook, saved as Python: look at the data, train a model, plot. `train` is its last cell, made a function."""

# %% The data: ten measurements of 442 patients, and how their diabetes went on
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import train_test_split

import plat

patients = load_diabetes(as_frame=True)
features, target = patients.data, patients.target


# %% A model: boosted trees, with the validation error after every ten trees
def train(lr, depth, share, trees=60, seed=0):
    """Fit boosted trees; `share` of the patients for each tree. Return how much of the variance they explain."""
    inputs, held_out, outputs, true = train_test_split(features, target, test_size=0.3, random_state=seed)
    model = GradientBoostingRegressor(
        learning_rate=lr, max_depth=depth, subsample=share, n_estimators=trees, random_state=seed
    ).fit(inputs, outputs)
    for tree, predicted in enumerate(model.staged_predict(held_out), 1):
        if tree % 10 == 0:
            plat.log(tree, mse=mean_squared_error(true, predicted), r2=r2_score(true, predicted))
    return {"final_r2": r2_score(true, model.predict(held_out))}


# %% Try it
if __name__ == "__main__":
    print(features.describe().round(3))
    print(train(lr=0.1, depth=2, share=1.0))
