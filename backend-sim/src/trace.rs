//! Writes what a kernel does as a trace that Perfetto and Chrome (`chrome://tracing`) open.
//!
//! One row for the blocks of the body, one for waits, one for each window's copies.

use crate::pipeline::{Interval, Lane, WindowCopy};

/// The trace as JSON text; `clock_hz` turns cycles into time.
pub fn chrome(
    title: &str,
    windows: &[WindowCopy],
    intervals: &[Interval],
    clock_hz: f64,
) -> String {
    let mut lanes: Vec<Lane> = intervals.iter().map(|interval| interval.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let row = |lane: &Lane| lanes.iter().position(|other| other == lane).unwrap_or(0);
    let mut events = vec![format!(
        r#"{{"ph":"M","pid":0,"name":"process_name","args":{{"name":{}}}}}"#,
        quoted(title)
    )];
    for lane in &lanes {
        let name = match lane {
            Lane::Compute => "compute".into(),
            Lane::Wait => "waits".into(),
            Lane::Own => "copies of the kernel".into(),
            Lane::Window(i) => match windows.get(*i) {
                Some(window) => format!("copies of {}", window.name),
                None => format!("copies of window {i}"),
            },
        };
        events.push(format!(
            r#"{{"ph":"M","pid":0,"tid":{},"name":"thread_name","args":{{"name":{}}}}}"#,
            row(lane),
            quoted(&name)
        ));
    }
    let micros = |cycles: f64| cycles / clock_hz * 1e6;
    for interval in intervals {
        events.push(format!(
            r#"{{"ph":"X","pid":0,"tid":{},"name":{},"ts":{:.4},"dur":{:.4},"args":{{"step":{},"cycles":{:.0}}}}}"#,
            row(&interval.lane),
            quoted(&interval.name),
            micros(interval.start),
            micros(interval.end - interval.start),
            interval.step,
            interval.end - interval.start,
        ));
    }
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
        events.join(",\n")
    )
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
    fn a_trace_is_json_with_one_row_for_each_lane() {
        let windows = [WindowCopy {
            name: "a \"b\"".into(),
            bytes: 8.0,
            output: false,
            single: false,
        }];
        let interval = |lane, start, end| Interval {
            lane,
            name: "x".into(),
            step: 3,
            start,
            end,
        };
        let intervals = [
            interval(Lane::Window(0), 0.0, 50.0),
            interval(Lane::Compute, 50.0, 150.0),
        ];
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
            r#"{"ph":"X","pid":0,"tid":0,"name":"x","ts":0.0500,"dur":0.1000,"args":{"step":3,"cycles":100}}"#,
            "\n]}\n"
        );
        assert_eq!(chrome("k\\\n", &windows, &intervals, 1e9), expected);
    }
}
