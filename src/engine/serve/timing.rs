//! The headers that every answer carries: which request it was, how long it waited and ran.

use crate::engine::runtime::{JobTimes, RequestId};
use http::{HeaderMap, HeaderName, HeaderValue};

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const QUEUE_MS: HeaderName = HeaderName::from_static("x-queue-ms");
const RUN_MS: HeaderName = HeaderName::from_static("x-run-ms");

/// Sets `x-request-id`.
pub(super) fn set_id(headers: &mut HeaderMap, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, value);
    }
}

/// Sets `x-request-id`, `x-queue-ms` and `x-run-ms`.
pub(super) fn set_times(headers: &mut HeaderMap, id: RequestId, times: JobTimes) {
    set_id(headers, &id.to_string());
    for (name, ms) in [(QUEUE_MS, times.queue_ms), (RUN_MS, times.run_ms)] {
        if let Ok(value) = HeaderValue::from_str(&format!("{ms:.1}")) {
            headers.insert(name, value);
        }
    }
}

/// Milliseconds rounded to a microsecond: more digits are noise in a JSON answer.
pub(super) fn round_ms(ms: f64) -> f64 {
    (ms * 1000.0).round() / 1000.0
}
