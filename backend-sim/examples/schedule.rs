//! Prints predicted schedules as JSON lines: `schedule TARGET FILE...`.
use tilecast_core::target::Target;
use tilecast_sim::schedule::{Machine, Unit, schedule};
use tilecast_tpu::mosaic::Module;

fn main() {
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (target, file) = line.split_once(' ').unwrap();
        let target: &'static Target = tilecast_core::target::TARGETS
            .iter()
            .find(|t| t.name == target)
            .unwrap();
        let mut machine = Machine::new(target);
        for pair in std::env::var("FIT")
            .unwrap_or_default()
            .split(',')
            .filter(|p| !p.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap();
            for (n, v) in machine.fitted() {
                if n == name {
                    *v = value.parse().unwrap();
                }
            }
        }
        if std::env::var("DUMP").is_ok() {
            for (n, v) in machine.fitted() {
                println!("{n} {v}");
            }
            return;
        }

        if file.is_empty() {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        let module = match Module::parse(&text) {
            Ok(m) => m,
            Err(e) => {
                println!("{{\"file\":\"{file}\",\"error\":\"parse {e}\"}}");
                continue;
            }
        };
        let start = std::time::Instant::now();
        match schedule(&module, &machine) {
            Err(e) => println!(
                "{{\"file\":\"{file}\",\"error\":\"{}\"}}",
                e.to_string().replace('"', "'")
            ),
            Ok(s) => {
                let us = start.elapsed().as_micros();
                let kinds: Vec<String> = s.kinds.iter().map(|k| {
                    let slots: Vec<String> = Unit::ALL.iter().map(|u| format!("\"{u:?}\":{}", k.schedule.slots(*u))).collect();
                    let regions: Vec<String> = k.schedule.regions.iter().map(|r| format!("[{},{},{}]", r.times, r.cycles, r.registers)).collect();
                    format!("{{\"times\":{},\"at\":{:?},\"cycles\":{},\"slots\":{{{}}},\"regions\":[{}],\"unknown\":{}}}", k.times, k.at, k.schedule.cycles(&machine) + s.step_cycles(&machine), slots.join(","), regions.join(","), k.schedule.unknown_conditions + k.schedule.unknown_trips)
                }).collect();
                println!(
                    "{{\"file\":\"{file}\",\"us\":{us},\"cycles\":{},\"registers\":{},\"dropped\":{},\"kinds\":[{}]}}",
                    s.cycles(&machine),
                    s.registers(),
                    s.dropped.len(),
                    kinds.join(",")
                );
            }
        }
    }
}
