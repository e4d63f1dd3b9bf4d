//! The batch scheduler: items, costs and the former. Pure: time comes in as [`Micros`], reasons go out as values.

pub mod micros;

pub use micros::Micros;
