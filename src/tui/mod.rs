//! The console: `model` (pure reducer), `view` (pure draw), `term` (terminal guard, input, frames).
