//! The table of exit codes. Help, man page, reference and tests are generated from it.

/// An exit code of the process.
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

    /// Explains what the code means for the cluster and what to do next, for `explain`.
    pub(crate) fn explanation(self) -> &'static str {
        match self {
            Self::Healthy => {
                "Every selected check passed in one and the same round; warnings do not change that. The summary lists everything that weakened the verdict, such as `--skip`."
            }
            Self::Unhealthy => {
                "At least one check failed in the last complete round. The last lines of the report show the first cause and the first step. `--wait-timeout` waits for problems that may go away on their own."
            }
            Self::Usage => {
                "The command line is invalid, its options contradict each other, or `--nodes` or `--drain` names a node that this cluster does not have. The error names the option; `cluster-health --help` describes all of them."
            }
            Self::NothingChecked => {
                "The selection (`--check`, `--skip`, `--level`, `--nodes`) matches no check that applies to this cluster. If that is intended, accept this code: `cluster-health … || [ $? -eq 4 ]`."
            }
            Self::Undetermined => {
                "Nothing failed, but at least one check got no usable answer, so the cluster may or may not be healthy. The report names what did not answer. It is often the network of this runner: check VPN, firewall and DNS, then run again."
            }
            Self::Internal => {
                "A bug in cluster-health, or a machine without threads or file descriptors to spare. The verdict is unknown. Report a bug with the message on stderr and the output of `cluster-health version -o json`."
            }
            Self::ReportNotWritten => {
                "A file of `--report`, or the result on stdout, could not be written. Check that the folder exists, is writable and has space left. If the cluster is not healthy, the exit code of that verdict takes precedence."
            }
            Self::Refused => {
                "Nothing failed, but credentials were rejected (401) or lack rights (403), so at least one check could not run. Talos needs the role os:reader; Kubernetes needs the ClusterRole that `cluster-health rbac` prints."
            }
            Self::Configuration => {
                "The talosconfig, the kubeconfig or a certificate in them is missing, invalid or expired, or the exec plugin of the kubeconfig failed. The cluster was not checked. Waiting does not help: correct the file or pass another one with `--talosconfig` or `--kubeconfig`. For a plugin, the message shows its name and what it wrote to stderr."
            }
            Self::Deadline => {
                "Nothing failed, but `--wait-timeout` ended before the first round was complete, or before the cluster had been healthy for all of `--stable-for`. Allow more time, or look at what the last progress line waits for."
            }
            Self::Hangup | Self::Interrupted | Self::Terminated => {
                "The run was ended from outside, for example by Ctrl-C or by the CI system. The report shows the last complete round. An interrupted run never counts as healthy."
            }
        }
    }

    pub(crate) fn find(code: &str) -> Option<Self> {
        let code: u8 = code.parse().ok()?;
        Self::ALL.into_iter().find(|exit| exit.code() == code)
    }

    fn row(self) -> (u8, &'static str) {
        match self {
            Self::Healthy => (0, "healthy: every selected check was seen to pass"),
            Self::Unhealthy => (1, "unhealthy: a check failed"),
            Self::Usage => (2, "usage error"),
            Self::NothingChecked => (4, "nothing was checked"),
            Self::Undetermined => (69, "could not be determined; nothing was seen to fail"),
            Self::Internal => (70, "internal error"),
            Self::ReportNotWritten => {
                (74, "a requested report could not be written: before the run, or after a healthy one")
            }
            Self::Refused => (77, "authentication or authorization was refused; nothing was seen to fail"),
            Self::Configuration => {
                (78, "talosconfig, kubeconfig, or a certificate or exec plugin in them cannot be used")
            }
            Self::Deadline => {
                (124, "no complete round ended before the deadline, or it was not healthy for long enough")
            }
            Self::Hangup => (129, "ended by SIGHUP"),
            Self::Interrupted => (130, "ended by SIGINT"),
            Self::Terminated => (143, "ended by SIGTERM"),
        }
    }
}
