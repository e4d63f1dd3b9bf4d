//! The routes, in one table.

use super::access;
use super::app::App;
use super::failure;
use super::http::{
    arrivals, audio, chat, commits, completions, control, embeddings, models, probes, requests, rerank, settings,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, patch, post};
use tower_http::catch_panic::CatchPanicLayer;

/// All routes. Both doors serve the same; what differs is who a client is taken for.
pub(super) fn router(app: App) -> Router {
    let serve = Router::new()
        .route("/v1/audio/transcriptions", post(audio::transcriptions))
        .route("/v1/audio/translations", post(audio::translations))
        .route("/v1/embeddings", post(embeddings::embeddings))
        .route("/v1/rerank", post(rerank::rerank))
        .route("/v1/chat/completions", post(chat::chat))
        .route("/v1/completions", post(completions::completions))
        .route_layer(from_fn(access::require_serve));
    let listing = Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/{id}", get(models::one))
        .route_layer(from_fn(access::require_serve_or_read));
    let read = Router::new()
        .route("/readyz", get(probes::readyz))
        .route("/progressz", get(probes::progressz))
        .route("/metrics", get(probes::metrics))
        .route("/control/v1/snapshot", get(control::snapshot))
        .route("/control/v1/watch", get(control::watch))
        .route("/control/v1/arrivals", get(arrivals::arrivals))
        .route("/control/v1/knobs", get(settings::knobs))
        .route("/control/v1/journal", get(settings::journal))
        .route_layer(from_fn(access::require_read));
    let control = Router::new()
        .route("/v1/requests/{id}", delete(requests::cancel))
        .route("/control/v1/commits", get(commits::commits))
        .route("/control/v1/changes", post(settings::change))
        .route("/control/v1/requests/{id}", patch(requests::patch))
        .route_layer(from_fn(access::require_control));
    Router::new()
        .merge(serve)
        .merge(listing)
        .merge(read)
        .merge(control)
        .route("/livez", get(probes::livez))
        .method_not_allowed_fallback(failure::no_method)
        .fallback(failure::no_route)
        // Each handler bounds its own body, by limits of the profile.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(failure::panicked))
        .layer(from_fn_with_state(app.clone(), access::identify))
        .with_state(app)
}
