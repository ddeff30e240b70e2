"""
The most informative words
==========================

Naive Bayes on text: stop words are removed, the other words are reduced to their stems, and Laplace smoothing prevents
a word that never occurred in a class from deciding the prediction. The bars are the log ratios of the word
probabilities.
"""

import matplotlib.pyplot as plt

from fastens import TextClassifier

texts = [
    "Machine learning is fun and trees learn quickly",
    "A boosted ensemble of trees learns from its mistakes",
    "The learner votes with all hypotheses and their probabilities",
    "Bagging trees reduces variance of the learned model",
    "A model learned from data predicts the class of new documents",
    "Bake the bread with flour, butter and a pinch of salt",
    "Butter melts in the pan; add onions and salt",
    "The soup needs salt, onions and fresh bread",
    "Knead flour and butter, then bake for an hour",
    "Fresh onions and a little flour thicken the soup",
]
labels = ["learning"] * 5 + ["cooking"] * 5
model = TextClassifier(stop_words="english", stemmer="english").fit(texts, labels)

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for ax, (label, terms) in zip(axes, model.most_informative_terms(6).items(), strict=True):
    words, weights = zip(*reversed(terms), strict=True)
    ax.barh(words, weights)
    ax.set(title=label, xlabel="log ratio of probabilities")

# %%
# The class probabilities of a new text:
print(dict(zip(model.classes_, model.predict_proba(["Which trees learn to bake bread?"])[0].round(3), strict=True)))
