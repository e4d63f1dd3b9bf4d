//! The seam to whatever computes predictions: a model in this process, or one whose layers are spread over hosts.

use super::pipeline::WindowId;
use super::window::Window;

/// How replies come back from a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// In this process: a reply follows at once.
    Local,
    /// No direct way back: replies pass through every stage.
    None,
    /// A return connection is bound, and the target does not use it yet.
    Opened,
    /// The target knows the connection; nothing has come over it.
    Unconfirmed,
    /// A reply was taken from it.
    Confirmed,
    /// It ended or failed.
    Lost,
}

impl Route {
    pub fn name(self) -> &'static str {
        match self {
            Route::Local => "local",
            Route::None => "none",
            Route::Opened => "opened",
            Route::Unconfirmed => "unconfirmed",
            Route::Confirmed => "confirmed",
            Route::Lost => "lost",
        }
    }

    /// Windows that may be under way at once: more than one only where replies are known to come back directly.
    pub fn depth(self, wanted: usize) -> usize {
        if self == Route::Confirmed { wanted.max(1) } else { 1 }
    }
}

/// The target's answer to a window: its predictions, one more than the window's width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub id: WindowId,
    pub predictions: Vec<u32>,
}

/// A target that failed to do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The direct return connection is gone; replies under way on it are lost, the target itself lives.
    #[error("the return route is lost: {0}")]
    RouteLost(String),
    /// The cache could not be rewound: what it holds is not to be trusted.
    #[error("the cache could not be rewound to {to}: {why}")]
    Rewind { to: usize, why: String },
    /// The target is gone.
    #[error("the target is gone: {0}")]
    Gone(String),
}

/// What computes the target's tokens for one sequence. Windows are computed in the order in which they were opened.
pub trait Target {
    /// Sends a window. Its first input is written at its start, which forgets what the cache held from there on.
    fn open(&mut self, id: WindowId, window: &Window) -> Result<(), TargetError>;

    /// The next reply, waiting for it.
    fn next_reply(&mut self) -> Result<Reply, TargetError>;

    /// Forgets what the cache holds from `to` on.
    fn rewind(&mut self, to: usize) -> Result<(), TargetError>;

    fn route(&self) -> Route;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_confirmed_route_carries_more_than_one_window() {
        use Route::{Confirmed, Local, Lost, None, Opened, Unconfirmed};
        for route in [Local, None, Opened, Unconfirmed, Lost] {
            assert_eq!(route.depth(8), 1, "{}", route.name());
        }
        assert_eq!((Confirmed.depth(8), Confirmed.depth(0)), (8, 1));
    }
}
