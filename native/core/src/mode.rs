//! Training and inference.

/// What operators are run for. Some, such as dropout and batch normalization, differ in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Predictions.
    Inference,
    /// Gradients.
    Training,
}

impl Mode {
    /// The mode for MXNet's flag `is_train`.
    pub fn training_if(is_train: bool) -> Mode {
        if is_train { Mode::Training } else { Mode::Inference }
    }

    /// Whether this is training.
    pub fn is_training(self) -> bool {
        self == Mode::Training
    }
}
