//! Writes what the CPU backend computes for the ops on logits, with its inputs, for other languages to check.
//!
//! `cargo run -p tilecast-tests --release --example logits_cases -- FOLDER` writes `FOLDER/cases.json` and
//! the arrays it names, little-endian without header; `tests/python/compare_logits.py` reads them.

use std::fs;
use std::path::Path;

use half::bf16;
use tilecast::DType;
use tilecast::core::kernels::grpo::{self, Ratio, Variant};
use tilecast::core::kernels::logits_ce;
use tilecast::core::kernels::softmax::LogitsOptions;
use tilecast_tests::OnCpu;
use tilecast_tests::logits::{Case, Column, Op};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("usage: logits_cases FOLDER")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let mut records = Vec::new();
    for (i, case) in cases().into_iter().enumerate() {
        records.push(write(folder, i, &case)?);
    }
    fs::write(
        folder.join("cases.json"),
        format!("[\n{}\n]\n", records.join(",\n")),
    )?;
    println!("{} cases in {}", records.len(), folder.display());
    Ok(())
}

/// Every option alone and all together, in both types.
fn cases() -> Vec<Case> {
    let logits = LogitsOptions {
        temperature: 0.7,
        ..LogitsOptions::default()
    };
    let plain = logits_ce::Options::default();
    let mut ops = vec![
        Op::LogitsCe(plain),
        Op::LogitsCe(logits_ce::Options { logits, ..plain }),
        Op::LogitsCe(logits_ce::Options {
            ignore_index: Some(-100),
            ..plain
        }),
        Op::LogitsCe(logits_ce::Options {
            label_smoothing: 0.1,
            ..plain
        }),
        Op::LogitsCe(logits_ce::Options {
            z_loss: 0.01,
            ..plain
        }),
        Op::LogitsCe(logits_ce::Options {
            logits,
            ignore_index: Some(-100),
            label_smoothing: 0.1,
            z_loss: 0.01,
        }),
        Op::Entropy(LogitsOptions::default()),
        Op::Entropy(logits),
    ];
    for variant in Variant::ALL {
        let clip_high = if variant == Variant::Cispo { 1.3 } else { 0.28 };
        let plain = grpo::Options {
            variant,
            clip_high,
            sequence_length: Some(6),
            ..grpo::Options::default()
        };
        let everything = grpo::Options {
            logits,
            clip_two_sided: Some(1.9),
            kl_beta: 0.1,
            mask: true,
            max_length: Some(9),
            ..plain
        };
        for options in [
            plain,
            everything,
            grpo::Options {
                ratio: Ratio::Sequence,
                ..everything
            },
            grpo::Options {
                old_logp: false,
                ..everything
            },
            grpo::Options {
                tokens_in_batch: Some(77.0),
                ..everything
            },
            grpo::Options {
                per_token: true,
                ..everything
            },
        ] {
            ops.push(Op::Grpo(options));
        }
    }
    let both = |op| {
        let case = Case {
            shape: [36, 1301],
            blocks: None,
            ..Case::new("", op)
        };
        [case.clone(), case.bf16()]
    };
    ops.into_iter().flat_map(both).collect()
}

/// Runs a case, writes its arrays and returns its record.
fn write(folder: &Path, i: usize, case: &Case) -> Result<String, Box<dyn std::error::Error>> {
    let data = case.data();
    let outputs = Column::Cpu(OnCpu::best(2)).run(case, &data)?;
    let mut arrays = Vec::new();
    let mut write = |name: &str, dtype: DType, bytes: Vec<u8>| -> std::io::Result<()> {
        let file = format!("{i}.{name}.{dtype}");
        fs::write(folder.join(&file), bytes)?;
        arrays.push(format!("\"{name}\": \"{file}\""));
        Ok(())
    };
    let f32s = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let stored = |values: &[f32]| match case.dtype {
        DType::Bf16 => (values.iter())
            .flat_map(|&x| bf16::from_f32(x).to_le_bytes())
            .collect(),
        _ => f32s(values),
    };
    let labels = data.labels.iter().flat_map(|x| x.to_le_bytes()).collect();
    write("logits", case.dtype, stored(&data.logits))?;
    write("labels", DType::I32, labels)?;
    for (name, values) in &data.vectors {
        write(name, DType::F32, f32s(values))?;
    }
    for (name, values) in &outputs {
        match *name {
            "d_logits" => write("out.d_logits", case.dtype, stored(values))?,
            _ => write(&format!("out.{name}"), DType::F32, f32s(values))?,
        }
    }
    let [b, v] = case.shape;
    let (arrays, dtype) = (arrays.join(", "), case.dtype);
    let options = options(&case.op);
    Ok(format!(
        "{{{options}, \"tokens\": {b}, \"vocab\": {v}, \"dtype\": \"{dtype}\", \"arrays\": {{{arrays}}}}}"
    ))
}

fn or_null(value: Option<impl std::fmt::Display>) -> String {
    value.map_or("null".into(), |value| value.to_string())
}

fn options(op: &Op) -> String {
    match op {
        Op::LogitsCe(o) => format!(
            "\"op\": \"logits-ce\", \"temperature\": {}, \"ignore_index\": {}, \"label_smoothing\": {}, \"z_loss\": {}",
            o.logits.temperature,
            or_null(o.ignore_index),
            o.label_smoothing,
            o.z_loss
        ),
        Op::Entropy(o) => format!("\"op\": \"entropy\", \"temperature\": {}", o.temperature),
        Op::Grpo(o) => format!(
            "\"op\": \"grpo\", \"temperature\": {}, \"variant\": \"{}\", \"sequence_level\": {}, \"clip_low\": {}, \
             \"clip_high\": {}, \"delta\": {}, \"beta\": {}, \"self_old\": {}, \"sequence_length\": {}, \
             \"max_length\": {}, \"tokens_in_batch\": {}, \"per_token\": {}",
            o.logits.temperature,
            o.variant.name(),
            o.ratio == Ratio::Sequence,
            o.clip_low,
            o.clip_high,
            or_null(o.clip_two_sided),
            o.kl_beta,
            !o.old_logp,
            or_null(o.sequence_length),
            or_null(o.max_length),
            or_null(o.tokens_in_batch),
            o.per_token
        ),
    }
}
