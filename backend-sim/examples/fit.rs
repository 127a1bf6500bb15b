//! Coordinate descent on the fitted figures: `fit TARGET < lines "cycles weight file"`.
use tilecast_sim::schedule::{Machine, schedule};
use tilecast_tpu::mosaic::Module;

fn main() {
    let name = std::env::args().nth(1).unwrap();
    let target = tilecast_core::target::TARGETS
        .iter()
        .find(|t| t.name == name)
        .unwrap();
    let points: Vec<(f64, Module)> = std::io::stdin()
        .lines()
        .map(|line| {
            let line = line.unwrap();
            let mut parts = line.split(' ');
            let cycles: f64 = parts.next().unwrap().parse().unwrap();
            (
                cycles,
                Module::parse(&std::fs::read_to_string(parts.next().unwrap()).unwrap()).unwrap(),
            )
        })
        .collect();
    let mut machine = Machine::new(target);
    let hardware = [
        target.valu_slots.value as f64,
        target.eup_per_cycle.value,
        target.result_pops_per_cycle.value as f64,
        target.xlu_count.value as f64,
        target.vector_loads_per_cycle.value as f64,
        target.vector_stores_per_cycle.value as f64,
    ];
    for (i, most) in hardware.into_iter().enumerate() {
        let mut figures = machine.fitted();
        *figures[i].1 = figures[i].1.clamp(0.9 * most, most);
    }
    let error = |m: &Machine| -> f64 {
        let sum: f64 = points
            .iter()
            .map(|(cycles, module)| {
                let e = (schedule(module, m).map_or(0.0, |s| s.cycles(m)) / cycles)
                    .ln()
                    .abs();
                if e < 0.2 { e } else { 0.2 + 0.3 * (e - 0.2) }
            })
            .sum();
        sum / points.len() as f64
    };
    let start = Machine::new(target).fitted().map(|(_, v)| *v);
    let most = [
        target.valu_slots.value as f64,
        target.eup_per_cycle.value,
        target.result_pops_per_cycle.value as f64,
        target.xlu_count.value as f64,
        target.vector_loads_per_cycle.value as f64,
        target.vector_stores_per_cycle.value as f64,
    ];
    let mut best = error(&machine);
    eprintln!("{name} {} points, start {best:.4}", points.len());
    for round in 0..3 {
        let step = [0.3, 0.12, 0.05][round];
        for i in 0..start.len() {
            for sign in [1.0, -1.0] {
                loop {
                    let old = *machine.fitted()[i].1;
                    let unit = old
                        .abs()
                        .max(if (13..17).contains(&i) { 20.0 } else { 0.5 });
                    let new = old + sign * step * unit;
                    // A unit is never faster than it is.
                    if i < 6 && !(0.85 * most[i]..=most[i]).contains(&new) {
                        break;
                    }
                    if (i < 13 || i == 17) && new < 0.0 {
                        break;
                    }
                    *machine.fitted()[i].1 = new;
                    let e = error(&machine);
                    if e < best - 1e-5 {
                        best = e;
                    } else {
                        *machine.fitted()[i].1 = old;
                        break;
                    }
                }
            }
        }
        eprintln!("{name} round {round}: {best:.4}");
    }
    for (n, v) in machine.fitted() {
        println!("{name} {n} {v:.3}");
    }
}
