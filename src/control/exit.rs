//! Exit codes: a published type. `lanekeeper-exit-codes(7)` is generated from [`ExitCode::ALL`].

/// How a lanekeeper command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    Ok = 0,
    Internal = 1,
    Usage = 2,
    Unreachable = 3,
    Denied = 4,
    Refused = 5,
    Conflict = 6,
    TimedOut = 7,
    Unhealthy = 8,
    Differences = 10,
    Interrupted = 130,
}

impl ExitCode {
    /// Every code, in numeric order.
    pub const ALL: [ExitCode; 11] = [
        ExitCode::Ok,
        ExitCode::Internal,
        ExitCode::Usage,
        ExitCode::Unreachable,
        ExitCode::Denied,
        ExitCode::Refused,
        ExitCode::Conflict,
        ExitCode::TimedOut,
        ExitCode::Unhealthy,
        ExitCode::Differences,
        ExitCode::Interrupted,
    ];

    /// The number the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// One line for help and the man page.
    pub fn meaning(self) -> &'static str {
        match self {
            ExitCode::Ok => "the command did what it was asked",
            ExitCode::Internal => "something else failed, such as a download or a disk; the message says what",
            ExitCode::Usage => "the command line could not be understood",
            ExitCode::Unreachable => "the engine could not be reached",
            ExitCode::Denied => "denied: a missing or wrong key, a missing right, or a read-only engine",
            ExitCode::Refused => "refused by validation: a bad value, profile, file or request",
            ExitCode::Conflict => "a conflict: the settings moved since they were read",
            ExitCode::TimedOut => "timed out while waiting",
            ExitCode::Unhealthy => "a predicate was false, or a check found something unhealthy",
            ExitCode::Differences => "differences were found",
            ExitCode::Interrupted => "interrupted by a signal",
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code.code())
    }
}
