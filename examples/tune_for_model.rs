//! Choose block sizes for a model before queueing for a TPU: every candidate's verdict on two
//! generations, from a Hugging Face configuration.

use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::core::target::Target;
use tilecast::sim::Verdict;
use tilecast::sim::op::Request;
use tilecast::sim::tune::{Counts, Space, tune};
use tilecast::{DType, Options, Strategy};

const TOKENS: usize = 8192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/configs/llama-3-8b.json"
    );
    let config: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(config)?)?;
    let size = |key: &str| {
        config[key]
            .as_u64()
            .ok_or(format!("no {key}"))
            .map(|n| n as usize)
    };
    let (hidden, vocab) = (size("hidden_size")?, size("vocab_size")?);
    let problem = LinearCe::new(TOKENS, hidden, vocab, DType::Bf16, Options::default())?;

    for name in ["v5p", "v6e"] {
        let target = Target::by_name(name)?;
        let request = Request::new(problem, target, 1, None)?;
        let space = Space::new(&request, [true; 2], [None; 2], &Strategy::ALL);
        let rows = tune(&request, &space, || {})?;

        let mut counts = Counts::default();
        rows.iter().for_each(|row| counts.count(row.report.verdict));
        println!(
            "{name}: {} of {} block sizes fit, {} run out of VMEM",
            counts.fits, counts.tried, counts.vmem_oom
        );
        let best = &rows[0];
        assert_eq!(best.report.verdict, Verdict::Fits);
        assert!(best.vmem_used_bytes <= best.vmem_limit_bytes);
        assert!(
            counts.vmem_oom > 0,
            "some candidates are too large for every target"
        );
        let total = best.report.total.expect("what fits has a time");
        println!(
            "  best: forward {:?}, backward {:?}: {:.1} ms, {:.0} tokens/s",
            best.forward.expect("both passes"),
            best.backward.expect("both passes").blocks,
            total.time_s * 1e3,
            total.tokens_per_s
        );
    }
    Ok(())
}
