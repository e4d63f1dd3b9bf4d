//! CPU kernels: the only room where `unsafe` may stand. Every function has a portable twin, run-time dispatch, a proof
//! of its bounds in a comment, and a test against f64.
