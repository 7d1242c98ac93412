//! A service's state as a headline can quote it: one line, with the part that shows the error.

use crate::model::log_line;
use crate::snapshot::Service;
use crate::text::excerpt::{self, is_short};

/// Returns a service's `observed` text if it is short, or else its state and the most informative part.
pub(super) fn of_problem(observed: &str, service: Option<&Service>) -> String {
    match service {
        Some(service) if !is_short(observed) => of_service(service),
        _ => excerpt::of(observed),
    }
}

/// Describes a service. A running service has a health message, which its last event only repeats. For other services, the event shows the
/// reason.
pub(super) fn of_service(service: &Service) -> String {
    let event = service.last_event.as_ref().map_or("", |event| event.message.as_str());
    let state = if service.state.is_empty() { "no state" } else { service.state.as_str() };
    if service.state == "Running" && !service.health_message.is_empty() {
        return format!("{state}, not healthy: {}", excerpt::of(&service.health_message));
    }
    match excerpt::of(&end_of(event)) {
        why if why.is_empty() => state.to_owned(),
        why => format!("{state}; last event: {why}"),
    }
}

/// Talos's message about a program that it restarts whenever it exits.
const RESTARTS_AFTER_ERROR: &str = ", going to restart forever: ";

/// Part of all messages about a program that is started again: also `Runner … exited without error, going to restart it`.
const RESTARTS: &str = ", going to restart ";

/// Returns whether Talos has already tried to start the service again.
pub(super) fn keeps_exiting(service: &Service) -> bool {
    service.state != "Running" && service.last_event.as_ref().is_some_and(|event| event.message.contains(RESTARTS))
}

/// Returns how a program ended and the last line of its log that shows an error, from Talos's event:
/// `Error running …, going to restart forever: task … failed: exit code 1 (last log "…")`.
fn end_of(event: &str) -> String {
    let end = event.split_once(RESTARTS_AFTER_ERROR).map_or(event, |(_, end)| end);
    let Some((end, log)) = end.split_once(" (last log \"") else { return end.to_owned() };
    match telling_line(log.trim_end_matches("\")")) {
        Some(line) => format!("{end} ({})", log_line::message(&line)),
        None => end.to_owned(),
    }
}

/// Returns the last line, usually. If the program printed its usage, returns the last line that mentions an error, if any.
fn telling_line(log: &str) -> Option<String> {
    const ERRORS: [&str; 7] = ["error", "fail", "fatal", "invalid", "unknown", "not defined", "cannot"];
    let log = log.replace("\\n", "\n").replace("\\t", " ").replace("\\\"", "\"");
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let explains_usage = lines().any(|line| line.to_lowercase().starts_with("usage"));
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        !explains_usage || ERRORS.iter().any(|word| line.contains(word))
    };
    lines().rfind(tells).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture;
    use crate::text::excerpt::MOST;

    fn says(state: &str, health: &str, event: &str) -> String {
        let mut service = fixture::service("etcd");
        service.healthy = Some(false);
        (service.state, service.health_message) = (state.to_owned(), health.to_owned());
        event.clone_into(&mut service.last_event.as_mut().unwrap().message);
        of_service(&service)
    }

    #[test]
    fn what_is_short_is_quoted_as_it_is() {
        let service = fixture::service("etcd");
        assert_eq!(of_problem("Waiting, not healthy", Some(&service)), "Waiting, not healthy");
        assert_eq!(of_problem(&"x".repeat(MOST), Some(&service)), "x".repeat(MOST));
        assert_eq!(of_problem(&"x".repeat(MOST + 1), Some(&service)), "Running; last event: Health check successful");
        assert_eq!(of_problem("two\nlines", Some(&service)), "Running; last event: Health check successful");
        assert_eq!(of_problem("two\nlines", None), "two lines");
    }

    #[test]
    fn a_service_says_how_it_ended_and_why() {
        let ended = |log: &str| {
            let event = "Error running Containerd(etcd), going to restart forever: task \"etcd\" failed: exit code 2";
            says("Waiting", "service not running", &format!("{event} (last log \"{log}\")"))
        };
        let end = "Waiting; last event: task \"etcd\" failed: exit code 2";
        assert_eq!(ended("E1 run.go:72] \\\"it failed\\\""), format!("{end} (\"it failed\")"));
        let line = "E1124 02:43:05.134991 2649 run.go:72] \\\"command failed\\\" err=\\\"unknown flag: --x\\\"";
        assert_eq!(ended(line), format!("{end} (command failed: unknown flag: --x)"));
        assert_eq!(ended("begins\\n\\tends\\n"), format!("{end} (ends)"));
        assert_eq!(ended("begins\nends"), format!("{end} (ends)"));
        assert_eq!(ended("Usage:\\n\\n etcd [flags]\\n Start an etcd server."), end);
        assert_eq!(ended("Unknown flag: --x\\nUsage:\\n etcd [flags]"), format!("{end} (Unknown flag: --x)"));
        assert_eq!(ended(""), end);
        assert_eq!(says("Waiting", "", "Waiting for time sync"), "Waiting; last event: Waiting for time sync");
    }

    #[test]
    fn a_service_that_runs_says_what_ails_it() {
        assert_eq!(
            says("Running", "connection refused", "Health check failed: it"),
            "Running, not healthy: connection refused"
        );
        assert_eq!(says("Running", "", "Health check failed: it"), "Running; last event: Health check failed: it");
        assert_eq!(says("", "", ""), "no state");
    }
}
