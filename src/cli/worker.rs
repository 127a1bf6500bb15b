//! Work that is done in a process of its own, so that it can crash, talk and be given up.
//!
//! libtpu takes its settings from the environment, writes a log to standard error, ends the process on an
//! internal error, and may wait for minutes for a machine that is not there. So a command that loads it
//! starts itself again, with the same arguments and another environment, and reads the worker's [`Answer`]
//! from its standard output. Whatever else the worker writes is looked at only if it ends without an answer.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::error::CliError;
use super::output::print;

/// Set in the environment of a worker.
const WORKER: &str = "TILECAST_WORKER";

/// How a worker ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ended<T> {
    /// With an answer.
    Answered(T),
    /// By us, after the time it had; with the last preliminary answer, if it gave one.
    TimedOut(Option<T>),
}

/// What a worker has to say, as one line of JSON.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
enum Answer<T> {
    /// The result.
    Done(T),
    /// A result that may get better.
    Preliminary(T),
    /// The request is wrong.
    Invalid(String),
    /// The request may be right, but cannot be done.
    Failure(String),
    /// The request is right, and too much for the target.
    DoesNotFit(String),
}

/// Does `work` in a worker with additions to its environment, for at most `timeout_s` seconds. The work is
/// given a place for preliminary results.
///
/// In the worker itself, this does not return.
///
/// # Errors
/// Those of the work; the worker cannot be started, or ends without an answer.
pub(crate) fn in_worker<T: Serialize + DeserializeOwned>(
    environment: &[(&str, &str)],
    timeout_s: u32,
    work: impl FnOnce(&dyn Fn(T)) -> Result<T, CliError>,
) -> Result<Ended<T>, CliError> {
    if std::env::var_os(WORKER).is_some() {
        let answer = match work(&|result| say(&Answer::Preliminary(result))) {
            Ok(result) => Answer::Done(result),
            Err(CliError::Invalid(message)) => Answer::Invalid(message),
            Err(CliError::Failure(message)) => Answer::Failure(message),
            Err(CliError::DoesNotFit(message)) => Answer::DoesNotFit(message),
        };
        say(&answer);
        // What a plugin left running has nothing to add.
        std::process::exit(0);
    }
    let program = std::env::current_exe().map_err(|error| {
        CliError::failure(format_args!("cannot find the program's own file: {error}"))
    })?;
    let worker = Command::new(program)
        .args(std::env::args_os().skip(1))
        .envs(environment.iter().copied())
        .env(WORKER, "1")
        // Meant for other copies of XLA; one that libtpu does not know would end the worker.
        .env_remove("XLA_FLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| CliError::failure(format_args!("cannot start a process: {error}")))?;
    let timeout = Duration::from_secs(timeout_s.into());
    let ran = Ran::wait(worker, timeout)
        .map_err(|error| CliError::failure(format_args!("cannot wait for a process: {error}")))?;
    match (last_answer(&ran.stdout), ran.status) {
        (Some(Answer::Done(result)), _) => Ok(Ended::Answered(result)),
        (Some(Answer::Invalid(message)), _) => Err(CliError::Invalid(message)),
        (Some(Answer::Failure(message)), _) => Err(CliError::Failure(message)),
        (Some(Answer::DoesNotFit(message)), _) => Err(CliError::DoesNotFit(message)),
        (Some(Answer::Preliminary(result)), None) => Ok(Ended::TimedOut(Some(result))),
        (None, None) => Ok(Ended::TimedOut(None)),
        // It ended while it improved the result.
        (Some(Answer::Preliminary(result)), Some(_)) => Ok(Ended::Answered(result)),
        (None, Some(status)) => Err(CliError::failure(format_args!(
            "libtpu ended the process without an answer ({status}): {}",
            last_lines(&ran.stderr)
        ))),
    }
}

/// Prints an answer for the process that started this one, which may be gone.
fn say<T: Serialize>(answer: &Answer<T>) {
    if let Ok(line) = serde_json::to_string(answer) {
        // On a line of its own, whatever was written before.
        let _ = print(format_args!("\n{line}"));
    }
}

/// What a process left behind.
struct Ran {
    /// `None` if we ended it.
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Ran {
    /// Waits for the end of a process, and ends it when its time is over.
    fn wait(mut process: Child, timeout: Duration) -> io::Result<Self> {
        const PAUSE: Duration = Duration::from_millis(5);
        let (stdout, stderr) = (drain(process.stdout.take()), drain(process.stderr.take()));
        let started = Instant::now();
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break Some(status);
            }
            if started.elapsed() >= timeout {
                process.kill()?;
                process.wait()?;
                break None;
            }
            thread::sleep(PAUSE);
        };
        let text = |reader: JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
        Ok(Self {
            status,
            stdout: text(stdout),
            stderr: text(stderr),
        })
    }
}

/// Reads a pipe to its end, beside the process that fills it.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is kept.
            let _ = pipe.read_to_end(&mut text);
        }
        text
    })
}

/// Answers are lines; the plugin may have written others.
fn last_answer<T: DeserializeOwned>(stdout: &[u8]) -> Option<Answer<T>> {
    let mut lines = stdout.split(|byte| *byte == b'\n').rev();
    lines.find_map(|line| serde_json::from_slice(line).ok())
}

/// What a process said before its end, without the compiler's addresses and traces.
fn last_lines(text: &[u8]) -> String {
    const LINES: usize = 8;
    const LINE_CHARS: usize = 300;
    let text = String::from_utf8_lossy(text);
    let is_trace = |line: &str| {
        line.starts_with("=== Source") || line.starts_with("    @ ") || line.starts_with("PC: ")
    };
    let lines: Vec<String> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !is_trace(line))
        .map(|line| line.chars().take(LINE_CHARS).collect())
        .collect();
    match &lines[lines.len().saturating_sub(LINES)..] {
        [] => "it says nothing".into(),
        last => last.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_counts_whatever_else_is_said() {
        let said = "noise\n{\"Preliminary\":1}\n\n{\"Done\":2}\nI0000 more noise\n{}\n";
        assert_eq!(last_answer::<u32>(said.as_bytes()), Some(Answer::Done(2)));
        for none in ["", "\n", "noise", "{}", "noise {", "{\"Done\":\"text\"}"] {
            assert_eq!(last_answer::<u32>(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn last_words() {
        assert_eq!(last_lines(b""), "it says nothing");
        let trace = b"a\n\n=== Source Location Trace: ===\n    @ 0x1 main\nERROR: b\n";
        assert_eq!(last_lines(trace), "a\nERROR: b");
        assert_eq!(last_lines("x\n".repeat(20).as_bytes()).lines().count(), 8);
    }

    #[test]
    #[cfg(unix)]
    fn a_process_that_takes_too_long_is_ended_and_what_it_said_is_kept() {
        let shell = |script: &str, timeout| {
            let process = Command::new("sh")
                .args(["-c", script])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            Ran::wait(process, timeout).unwrap()
        };
        let started = Instant::now();
        let ran = shell("echo a; exec sleep 600", Duration::from_secs(1));
        assert!(ran.status.is_none());
        assert_eq!(ran.stdout, b"a\n");
        assert!(started.elapsed() < Duration::from_secs(300));
        // More than a pipe holds.
        let ran = shell("head -c 200000 /dev/zero; exit 3", Duration::from_secs(300));
        assert_eq!(ran.status.and_then(|status| status.code()), Some(3));
        assert_eq!(ran.stdout.len(), 200_000);
    }
}
