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
        self.row().0
    }

    pub(crate) fn meaning(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (u8, &'static str) {
        match self {
            Self::Healthy => (0, "healthy: every selected check was seen to pass"),
            Self::Unhealthy => (1, "unhealthy: a check failed"),
            Self::Usage => (2, "usage error"),
            Self::NothingChecked => (4, "nothing was checked"),
            Self::Undetermined => (69, "could not be determined, and nothing was seen to fail"),
            Self::Internal => (70, "internal error"),
            Self::ReportNotWritten => {
                (74, "a requested report could not be written: before the run, or after a healthy one")
            }
            Self::Refused => (77, "authentication or authorization was refused, and nothing was seen to fail"),
            Self::Configuration => (78, "talosconfig, kubeconfig or a certificate in them cannot be used"),
            Self::Deadline => {
                (124, "no complete round ended before the deadline, or it was not healthy for long enough")
            }
            Self::Hangup => (129, "ended by SIGHUP"),
            Self::Interrupted => (130, "ended by SIGINT"),
            Self::Terminated => (143, "ended by SIGTERM"),
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
        assert!(include_str!("../../README.md").contains(&rows.concat()), "{}", rows.concat());
    }
}
