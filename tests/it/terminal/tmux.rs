//! A real terminal: a pane of a tmux server that belongs to one test.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::Program;

/// Longer than any step takes, unless it hangs.
const HUNG: Duration = Duration::from_secs(90);

/// The prompt of the waiting shell.
const PROMPT: &str = "ready> ";

/// A pane with a shell. Its server ends together with it, regardless of how the test ends.
pub(super) struct Terminal {
    home: TempDir,
    /// Receives everything that programs write to the pane, through tmux's control mode.
    watcher: Child,
    news: Receiver<Vec<u8>>,
    /// The output that has been received so far.
    written: RefCell<Vec<u8>>,
}

impl Terminal {
    /// Opens a shell in a directory in which `./run` is the prepared program.
    pub(super) fn open(program: Program, columns: usize, lines: usize) -> Self {
        let (script, home) = program.into_script();
        std::fs::write(home.path().join("run"), script).unwrap();
        let size = [columns.to_string(), lines.to_string()];
        // Information about the terminal from tmux, its shell or the machine's configuration is kept out of the pane.
        let shell = format!("exec env -u TMUX -u TMUX_PANE PS1='{PROMPT}' ENV= sh -i");
        tmux(&home, &["new-session", "-d", "-x", &size[0], "-y", &size[1], &shell]);
        tmux(&home, &["set-option", "-g", "window-size", "manual"]);
        let mut watcher = command(&home)
            .args(["-C", "attach-session"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(watcher.stdout.take().unwrap());
        let (tell, news) = channel();
        std::thread::spawn(move || {
            // Until the server or the test ends.
            for line in said.split(b'\n').map_while(Result::ok) {
                if line.strip_prefix(b"%output %0 ").is_some_and(|text| tell.send(unescaped(text)).is_err()) {
                    return;
                }
            }
        });
        let terminal = Self { home, watcher, news, written: RefCell::default() };
        terminal.until("a prompt", |screen| screen.last() == Some(&PROMPT.trim_end()));
        terminal
    }

    /// Types a line into the shell.
    pub(super) fn enter(&self, line: &str) {
        tmux(&self.home, &["send-keys", "-l", line]);
        self.press("Enter");
    }

    /// Runs `./run` with these redirections, and then shows its exit code.
    pub(super) fn run(&self, redirections: &str) {
        self.enter(&format!("sh ./run {redirections}; echo \"code=$?\""));
    }

    /// Presses a key, such as `C-c`.
    pub(super) fn press(&self, key: &str) {
        tmux(&self.home, &["send-keys", key]);
    }

    pub(super) fn resize(&self, columns: usize, lines: usize) {
        tmux(&self.home, &["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }

    /// Returns the visible lines, up to the last non-empty one.
    pub(super) fn screen(&self) -> Vec<String> {
        lines(&tmux(&self.home, &["capture-pane", "-p"]))
    }

    /// Returns all lines that were shown and not erased, with wrapped lines joined.
    pub(super) fn everything(&self) -> Vec<String> {
        lines(&tmux(&self.home, &["capture-pane", "-p", "-J", "-S", "-"]))
    }

    /// Returns all output of programs up to these words.
    #[track_caller]
    pub(super) fn written(&self, words: &str) -> String {
        let hung = Instant::now() + HUNG;
        loop {
            let written = String::from_utf8_lossy(&self.written.borrow()).into_owned();
            if let Some(at) = written.find(words) {
                return written[..at].to_owned();
            }
            self.hear(hung, words);
        }
    }

    /// Waits for further output.
    #[track_caller]
    fn hear(&self, hung: Instant, what: &str) {
        let left = hung.saturating_duration_since(Instant::now());
        let Ok(news) = self.news.recv_timeout(left) else { panic!("no {what}:\n{}", self.screen().join("\n")) };
        // All pending output is handled at once.
        self.written.borrow_mut().extend(std::iter::once(news).chain(self.news.try_iter()).flatten());
    }

    /// Returns the column of the cursor, and whether it is visible.
    pub(super) fn cursor(&self) -> (usize, bool) {
        let said = tmux(&self.home, &["display-message", "-p", "#{cursor_x} #{cursor_flag}"]);
        let (column, visible) = said.trim().split_once(' ').unwrap();
        (column.parse().unwrap(), visible == "1")
    }

    /// Waits until the visible lines meet the condition.
    #[track_caller]
    pub(super) fn until(&self, what: &str, condition: impl Fn(&[&str]) -> bool) -> Vec<String> {
        self.wait(what, || self.screen(), |screen| condition(&screen.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// Waits until the condition is met, checking after each output: a single check may fall between erasing and redrawing a region.
    #[track_caller]
    pub(super) fn wait<Seen>(&self, what: &str, look: impl Fn() -> Seen, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let hung = Instant::now() + HUNG;
        loop {
            let seen = look();
            if is_so(&seen) {
                return seen;
            }
            self.hear(hung, what);
        }
    }

    /// Waits for the program to end with this code, and verifies its remaining output: the prompt in the first column, a visible cursor,
    /// and no remains of a region.
    #[track_caller]
    pub(super) fn ends(&self, code: i32) -> Vec<String> {
        let ended = format!("code={code}");
        let screen = self.until(&ended, |screen| screen.ends_with(&[&ended, PROMPT.trim_end()]));
        assert_eq!(self.cursor(), (PROMPT.len(), true), "{}", screen.join("\n"));
        let everything = self.everything();
        assert!(!everything.iter().any(|line| super::is_of_region(line)), "{}", everything.join("\n"));
        everything
    }

    pub(super) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path().join(name)).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell and its programs receive a SIGHUP.
        let _ = command(&self.home).arg("kill-server").output();
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}

/// Runs tmux with a separate server for this directory, and without any configuration.
fn command(home: &TempDir) -> Command {
    let mut command = Command::new("tmux");
    command.env_clear().env("HOME", home.path()).env("SHELL", "/bin/sh").current_dir(home.path());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.args(["-u", "-f", "/dev/null", "-S"]).arg(home.path().join("tmux"));
    command
}

/// Runs a tmux command, and returns its output.
#[track_caller]
fn tmux(home: &TempDir, arguments: &[&str]) -> String {
    let output = command(home).args(arguments).output();
    let output = output.expect("tmux is needed: `tools/setup terminal`, or on Debian `apt-get install tmux`");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Control mode writes `\033` for ESC.
fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some((first, rest)) = text.split_first() {
        let octal = rest.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            text = &rest[3..];
        } else {
            bytes.push(*first);
            text = rest;
        }
    }
    bytes
}

fn lines(screen: &str) -> Vec<String> {
    screen.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
}
