//! The doors from outside: a real server, real sockets, fake models.

mod access;
mod bed;
mod bodies;
mod fakes;
mod generation;
mod life;
mod speech;
mod text;
