//! The `lanekeeper` binary: parses, calls the library, maps the outcome to an exit code.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    lanekeeper::cli::main()
}
