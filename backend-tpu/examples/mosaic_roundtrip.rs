//! Reads a Mosaic module in any of its forms from a file and prints it in another.
//!
//! `mosaic_roundtrip FILE [stable|pretty|generic|verify] [VERSION]`

use std::process::ExitCode;

use tilecast_tpu::mosaic::{Module, version};

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: mosaic_roundtrip FILE [stable|pretty|generic|verify] [VERSION]";
    let path = args.next().ok_or(usage)?;
    let form = args.next().unwrap_or_else(|| "stable".into());
    let module = Module::parse(&std::fs::read_to_string(&path)?)?;
    match form.as_str() {
        "stable" => {
            let number = args.next().map_or(Ok(version::CURRENT), |v| v.parse())?;
            Ok(module.to_stable(number)?)
        }
        "pretty" => Ok(module.to_pretty()),
        "generic" => Ok(module.to_generic()),
        "verify" => {
            let errors = module.verify_all();
            let lines: Vec<String> = errors.iter().map(|e| format!("{path}: {e}")).collect();
            if errors.is_empty() {
                Ok(String::new())
            } else {
                Err(lines.join("\n").into())
            }
        }
        _ => Err(usage.into()),
    }
}
