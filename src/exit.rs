//! Exit codes: one table, from which help, man page, README and tests are made.

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Exit {
    Healthy,
    Unhealthy,
    Usage,
    NothingChecked,
    Undetermined,
    Internal,
    ReportNotWritten,
    Refused,
    Configuration,
    Deadline,
    Hangup,
    Interrupted,
    Terminated,
}

impl Exit {
    pub(crate) const ALL: [Self; 13] = [
        Self::Healthy,
        Self::Unhealthy,
        Self::Usage,
        Self::NothingChecked,
        Self::Undetermined,
        Self::Internal,
        Self::ReportNotWritten,
        Self::Refused,
        Self::Configuration,
        Self::Deadline,
        Self::Hangup,
        Self::Interrupted,
        Self::Terminated,
    ];

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Unhealthy => 1,
            Self::Usage => 2,
            Self::NothingChecked => 4,
            Self::Undetermined => 69,
            Self::Internal => 70,
            Self::ReportNotWritten => 74,
            Self::Refused => 77,
            Self::Configuration => 78,
            Self::Deadline => 124,
            Self::Hangup => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Healthy => "healthy: every selected check was seen to pass",
            Self::Unhealthy => "unhealthy: a check failed",
            Self::Usage => "usage error",
            Self::NothingChecked => "nothing was checked",
            Self::Undetermined => "could not be determined, and nothing was seen to fail",
            Self::Internal => "internal error",
            Self::ReportNotWritten => "a requested report could not be written: before the run, or after a healthy one",
            Self::Refused => "authentication or authorisation was refused, and nothing was seen to fail",
            Self::Configuration => "talosconfig, kubeconfig or a certificate in them cannot be used",
            Self::Deadline => "no complete round ended before the deadline, or it was not healthy for long enough",
            Self::Hangup => "ended by SIGHUP",
            Self::Interrupted => "ended by SIGINT",
            Self::Terminated => "ended by SIGTERM",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_this_table() {
        let rows: Vec<String> =
            Exit::ALL.iter().map(|exit| format!("| {} | {} |\n", exit.code(), exit.meaning())).collect();
        assert!(include_str!("../README.md").contains(&rows.concat()), "{}", rows.concat());
    }
}
