//! Training and inference.

/// Whether operators run for training or for inference. Some, such as dropout and batch normalization, compute different results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Computing predictions.
    Inference,
    /// Computing gradients.
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
