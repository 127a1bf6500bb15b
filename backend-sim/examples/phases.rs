#![allow(missing_docs)]
use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::*;
use tilecast_core::target::Target;
use tilecast_tpu::lower;
use tilecast_sim::grid::{Grid, Scalars};
use tilecast_sim::signature::Signature;
use tilecast_sim::schedule::{Machine, schedule_grid};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let target = Target::by_name(&a[1]).unwrap();
    let n = |i: usize| a[i].parse::<usize>().unwrap();
    let dtype = if a[2] == "f32" { DType::F32 } else { DType::Bf16 };
    let problem = LinearCe::new(8192, 4096, 128256, dtype, Options::default()).unwrap();
    let f = Blocks { b: n(3), h: n(4), v: n(5) };
    let machine = Machine::new(target);
    let s = Schedule { forward: f, backward: f, strategy: Strategy::Combined, chunk_columns: f.v, cores: target.cores_per_device(), rows_per_sub_tile: 128 };
    let p = problem.forward(&s).unwrap();
    let (launch, _) = p.launches()[0];
    for most in [1, 2, 3, 4, 5, 6, 8, 12, 16, 32] {
        let m = lower::lower_part(&launch.kernel, Default::default(), most).unwrap();
        if most > m.iterations { break }
        let m = m.module;
        let sig = Signature::read(&m).unwrap();
        let grid = Grid::new(&m, &sig, &Scalars::default(), 1).unwrap();
        let sch = schedule_grid(&m, &machine, &sig, &grid, &Scalars::default()).unwrap();
        print!("{most:3} ");
        for k in &sch.kinds { for r in &k.schedule.regions { print!("{:8.0}({:4.0})", r.cycles, r.registers); } print!(" | "); }
        println!();
    }
}
