//! The engine: decides ([`scheduler`], [`speculation`]), computes ([`models`], [`audio`]), runs ([`runtime`]) and answers ([`serve`]).

pub mod audio;
pub mod models;
pub mod runtime;
pub mod scheduler;
pub mod serve;
pub mod speculation;
