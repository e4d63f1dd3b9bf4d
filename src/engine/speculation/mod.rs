//! The speculative path: proposals, verify windows, what of them holds, and whether they pay. Pure: tokens and times come
//! in as values, decisions and their reasons go out as values.
//!
//! State: one [`Speculator`] per sequence and one [`Gate`] per model, owned by the thread that runs the model; nothing is
//! shared or locked. It cannot fail, and it cannot change what is generated: a token is committed only if the target
//! emitted it, so a wrong proposal costs time, never text.
//!
//! Where what lives: [`window`] what goes into a span, [`acceptance`] which of it holds, [`proposers`] where proposals come
//! from, [`width`] how wide, [`survival`] how deep they hold, [`costs`] what a pass costs, `allot` which rows pay,
//! [`gate`] the policies, [`assist`] whether to have tokens drafted, `published` the published rule, [`speculator`] one sequence's whole. For a target whose replies
//! take their time: [`target`] the seam, [`pipeline`] windows under way, [`supply`] proposals beyond one window,
//! [`coordinator`] the whole. For observers: [`commits`] batches of tokens, [`lifecycle`] start to end.

pub mod acceptance;
mod allot;
pub mod assist;
pub mod commits;
pub mod coordinator;
pub mod costs;
pub mod gate;
pub mod lifecycle;
pub mod pipeline;
pub mod proposers;
mod published;
pub mod recent;
pub mod speculator;
pub mod supply;
pub mod survival;
pub mod target;
#[cfg(test)]
mod tests;
pub mod width;
pub mod window;

pub use acceptance::{Accepted, Check, Ending, Next, accept};
pub use allot::Offer;
pub use assist::DEEPEST;
pub use gate::{Allotment, Gate, Pass, Purpose};
pub use proposers::{Draft, DraftOrigin, Drafter, Proposal, Proposer};
pub use recent::Recent;
pub use speculator::{Evidence, Settled, Speculator};
pub use window::Window;
