//! Writes what the CPU backend computes for the ops on logits, given and of a head, with its inputs, for other
//! languages to check.
//!
//! `cargo run -p tilecast-tests --release --example logits_cases -- FOLDER` writes `FOLDER/cases.json` and
//! the arrays it names, little-endian without header; `tests/python/compare_logits.py` reads them.

use std::error::Error;
use std::fs;
use std::path::Path;

use half::bf16;
use tilecast::DType;
use tilecast::core::kernels::grpo::{self, Ratio, Variant};
use tilecast::core::kernels::head::{HeadOptions, Strategy};
use tilecast::core::kernels::logits_ce;
use tilecast::core::kernels::softmax::LogitsOptions;
use tilecast_tests::OnCpu;
use tilecast_tests::linear;
use tilecast_tests::logits::{Case, Column, Data, Op, Outputs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("usage: logits_cases FOLDER")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let mut records = Vec::new();
    for case in cases() {
        records.push(write_given(folder, records.len(), &case)?);
    }
    for case in linear_cases() {
        records.push(write_linear(folder, records.len(), &case)?);
    }
    fs::write(
        folder.join("cases.json"),
        format!("[\n{}\n]\n", records.join(",\n")),
    )?;
    println!("{} cases in {}", records.len(), folder.display());
    Ok(())
}

/// Every option alone and all together.
fn ops() -> Vec<Op> {
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
    ops
}

/// On given logits, in both types.
fn cases() -> Vec<Case> {
    let both = |op| {
        let case = Case {
            shape: [36, 1301],
            blocks: None,
            ..Case::new("", op)
        };
        [case.clone(), case.bf16()]
    };
    ops().into_iter().flat_map(both).collect()
}

/// The same on the logits of a head, plain and with everything it can have, but for what `linear-ce` is for.
fn linear_cases() -> Vec<linear::Case> {
    let plain = HeadOptions {
        delta_dtype: Some(DType::F32),
        ..HeadOptions::default()
    };
    let everything = HeadOptions {
        bias: true,
        soft_cap: Some(5.0),
        ..plain
    };
    let case = |op, head| {
        let case = linear::Case::new("", op).shape([36, 67, 1301], [16, 32, 256]);
        let case = linear::Case { head, ..case };
        [case.clone(), case.bf16()]
    };
    let ops = ops()
        .into_iter()
        .filter(|op| !matches!(op, Op::LogitsCe(_)));
    ops.flat_map(|op| {
        [plain, everything]
            .into_iter()
            .flat_map(move |head| case(op, head))
    })
    .collect()
}

/// Runs a case, writes its arrays and returns its record.
fn write_given(folder: &Path, i: usize, case: &Case) -> Result<String, Box<dyn Error>> {
    let data = case.data();
    let outputs = Column::Cpu(OnCpu::best(2)).run(case, &data)?;
    let record = Record {
        case,
        of: String::new(),
        matrices: vec![("logits", case.dtype, &data.logits)],
        data: &data,
        outputs: &outputs,
    };
    record.write(folder, i)
}

/// The same on the logits of a head.
fn write_linear(folder: &Path, i: usize, case: &linear::Case) -> Result<String, Box<dyn Error>> {
    let data = case.data();
    let column = Column::Cpu(OnCpu::best(2));
    let outputs = linear::run(case, &data, column, Strategy::Streaming)?;
    let dtype = case.op.dtype;
    let mut matrices = vec![("x", dtype, &data.x), ("w", dtype, &data.w)];
    if case.head.bias {
        matrices.push(("bias", DType::F32, &data.bias));
    }
    let record = Record {
        case: &case.op,
        of: format!(
            "\"hidden\": {}, \"soft_cap\": {}, ",
            case.hidden,
            or_null(case.head.soft_cap)
        ),
        matrices,
        data: &data.of_rows,
        outputs: &outputs,
    };
    record.write(folder, i)
}

/// What is written of a case.
struct Record<'a> {
    case: &'a Case,
    /// What there is to say of the source of the logits, as JSON.
    of: String,
    /// What the logits are, or are made of.
    matrices: Vec<(&'a str, DType, &'a Vec<f32>)>,
    /// Everything beside them.
    data: &'a Data,
    outputs: &'a Outputs,
}

impl Record<'_> {
    fn write(&self, folder: &Path, i: usize) -> Result<String, Box<dyn Error>> {
        let mut arrays = Vec::new();
        let mut write = |name: &str, dtype: DType, values: &[f32]| -> std::io::Result<()> {
            let bytes: Vec<u8> = match dtype {
                DType::Bf16 => (values.iter())
                    .flat_map(|&x| bf16::from_f32(x).to_le_bytes())
                    .collect(),
                _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            };
            let file = format!("{i}.{name}.{dtype}");
            fs::write(folder.join(&file), bytes)?;
            arrays.push(format!("\"{name}\": \"{file}\""));
            Ok(())
        };
        for (name, dtype, values) in &self.matrices {
            write(name, *dtype, values)?;
        }
        for (name, values) in &self.data.vectors {
            write(name, DType::F32, values)?;
        }
        for (name, values) in self.outputs {
            let dtype = match *name {
                "d_logits" | "dx" | "dw" => self.case.dtype,
                _ => DType::F32,
            };
            write(&format!("out.{name}"), dtype, values)?;
        }
        let labels = self.data.labels.iter().flat_map(|x| x.to_le_bytes());
        let file = format!("{i}.labels.i32");
        fs::write(folder.join(&file), labels.collect::<Vec<u8>>())?;
        arrays.push(format!("\"labels\": \"{file}\""));
        let [b, v] = self.case.shape;
        let (arrays, dtype) = (arrays.join(", "), self.case.dtype);
        let (options, of) = (options(&self.case.op), &self.of);
        Ok(format!(
            "{{{options}, {of}\"tokens\": {b}, \"vocab\": {v}, \"dtype\": \"{dtype}\", \"arrays\": {{{arrays}}}}}"
        ))
    }
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
