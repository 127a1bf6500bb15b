//! Writes what kernels do as a trace that Perfetto and Chrome (`chrome://tracing`) open.
//!
//! A kernel is a process of the trace. It has a row for the blocks of its body, one for each unit that
//! works in them, one for waits, one for each window's copies, and one for each semaphore of its own copies.

use crate::pipeline::{Interval, Lane};

/// A kernel in a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Names of its windows, by [`Lane::Window`].
    pub windows: Vec<String>,
    /// What it does.
    pub intervals: Vec<Interval>,
}

/// The trace of `processes`, each from its own start, as JSON text; `clock_hz` turns cycles into time.
pub fn chrome(processes: &[Process], clock_hz: f64) -> String {
    let events: Vec<String> = (processes.iter().enumerate())
        .flat_map(|(id, process)| events(id, process, clock_hz))
        .collect();
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
        events.join(",\n")
    )
}

fn events(id: usize, process: &Process, clock_hz: f64) -> Vec<String> {
    let intervals = &process.intervals;
    let mut lanes: Vec<Lane> = intervals.iter().map(|interval| interval.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let row = |lane: &Lane| lanes.binary_search(lane).unwrap_or(0);
    let mut events = vec![format!(
        r#"{{"ph":"M","pid":{id},"name":"process_name","args":{{"name":{}}}}}"#,
        quoted(&process.name)
    )];
    for lane in &lanes {
        let name = match lane {
            Lane::Compute => "compute".into(),
            Lane::Unit(unit) => format!("busy: {}", unit.name()),
            Lane::Wait => "waits".into(),
            Lane::Own(_) => {
                let others = lanes[..row(lane)].iter();
                let number = others.filter(|lane| matches!(lane, Lane::Own(_))).count() + 1;
                format!("copies of the kernel, semaphore {number}")
            }
            Lane::Window(i) => match process.windows.get(*i) {
                Some(window) => format!("copies of {window}"),
                None => format!("copies of window {i}"),
            },
        };
        events.push(format!(
            r#"{{"ph":"M","pid":{id},"tid":{},"name":"thread_name","args":{{"name":{}}}}}"#,
            row(lane),
            quoted(&name)
        ));
    }
    let micros = |cycles: f64| cycles / clock_hz * 1e6;
    for interval in intervals {
        events.push(format!(
            r#"{{"ph":"X","pid":{id},"tid":{},"name":{},"ts":{:.4},"dur":{:.4},"args":{{"step":{},"cycles":{:.0}}}}}"#,
            row(&interval.lane),
            quoted(&interval.name),
            micros(interval.start),
            micros(interval.end - interval.start),
            interval.step,
            interval.end - interval.start,
        ));
    }
    events
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_json_with_one_process_for_each_kernel_and_one_row_for_each_lane() {
        let interval = |lane, start, end| Interval {
            lane,
            name: "x".into(),
            step: 3,
            start,
            end,
        };
        let first = Process {
            name: "k\\\n".into(),
            windows: vec!["a \"b\"".into()],
            intervals: vec![
                interval(Lane::Window(0), 0.0, 50.0),
                interval(Lane::Compute, 50.0, 150.0),
            ],
        };
        let second = Process {
            name: "l".into(),
            windows: Vec::new(),
            intervals: vec![interval(Lane::Wait, 0.0, 1.0)],
        };
        let expected = concat!(
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n",
            r#"{"ph":"M","pid":0,"name":"process_name","args":{"name":"k\\\u000a"}},"#,
            "\n",
            r#"{"ph":"M","pid":0,"tid":0,"name":"thread_name","args":{"name":"compute"}},"#,
            "\n",
            r#"{"ph":"M","pid":0,"tid":1,"name":"thread_name","args":{"name":"copies of a \"b\""}},"#,
            "\n",
            r#"{"ph":"X","pid":0,"tid":1,"name":"x","ts":0.0000,"dur":0.0500,"args":{"step":3,"cycles":50}},"#,
            "\n",
            r#"{"ph":"X","pid":0,"tid":0,"name":"x","ts":0.0500,"dur":0.1000,"args":{"step":3,"cycles":100}},"#,
            "\n",
            r#"{"ph":"M","pid":1,"name":"process_name","args":{"name":"l"}},"#,
            "\n",
            r#"{"ph":"M","pid":1,"tid":0,"name":"thread_name","args":{"name":"waits"}},"#,
            "\n",
            r#"{"ph":"X","pid":1,"tid":0,"name":"x","ts":0.0000,"dur":0.0010,"args":{"step":3,"cycles":1}}"#,
            "\n]}\n"
        );
        assert_eq!(chrome(&[first, second], 1e9), expected);
    }
}
