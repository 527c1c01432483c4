"""The paper's figures on a model and data of one's own: one module per study, each against what the paper found."""
