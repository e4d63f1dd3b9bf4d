//! Doors: OpenAI-style HTTP, probes, metrics, and the control socket. They check, ask the runtime and shape answers;
//! they decide nothing.
