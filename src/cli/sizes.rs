//! `--blocks`: sizes of one op or of another.

use tilecast::Blocks;
use tilecast::core::kernels::softmax;
use tilecast::core::target::Target;
use tilecast::sim::problem::PassBlocks;

use super::error::CliError;

/// Block sizes as they are given, `b,h,v` or `b,v`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sizes {
    /// Along tokens, hidden and vocabulary.
    Three([usize; 3]),
    /// Along tokens and vocabulary.
    Two([usize; 2]),
}

impl Sizes {
    /// Blocks of an op on a head.
    ///
    /// # Errors
    /// There are two.
    pub(crate) fn of_head(self) -> Result<Blocks, CliError> {
        match self {
            Self::Three([b, h, v]) => Ok(Blocks { b, h, v }),
            Self::Two(_) => Err(CliError::invalid(
                "--blocks and --backward-blocks of an op on a head: 2 numbers; give three, for tokens, hidden and \
                 vocabulary: 128,512,1024",
            )),
        }
    }

    /// Time block and block size of an op on given logits.
    ///
    /// # Errors
    /// There are three.
    pub(crate) fn of_logits(self) -> Result<[usize; 2], CliError> {
        match self {
            Self::Two(sizes) => Ok(sizes),
            Self::Three(_) => Err(CliError::invalid(
                "--blocks and --backward-blocks of an op on given logits: 3 numbers; give two, for tokens and \
                 vocabulary (the time block and the block size): 128,2048",
            )),
        }
    }
}

impl Sizes {
    /// Rows, inputs and outputs of the grouped product.
    ///
    /// # Errors
    /// There are two.
    pub(crate) fn of_experts(self) -> Result<[usize; 3], CliError> {
        match self {
            Self::Three(sizes) => Ok(sizes),
            Self::Two(_) => Err(CliError::invalid(
                "--blocks and --backward-blocks of gmm: 2 numbers; give three, for rows, hidden and out features: \
                 512,1024,1024",
            )),
        }
    }
}

/// Blocks that can be given as sizes.
pub(crate) trait OfSizes: PassBlocks {
    /// The blocks, as `target` takes them.
    ///
    /// # Errors
    /// Sizes of another op.
    fn of(sizes: Sizes, target: &Target) -> Result<Self, CliError>;
}

impl OfSizes for Blocks {
    fn of(sizes: Sizes, _: &Target) -> Result<Self, CliError> {
        sizes.of_head()
    }
}

impl OfSizes for softmax::Blocks {
    fn of(sizes: Sizes, target: &Target) -> Result<Self, CliError> {
        let [b, v] = sizes.of_logits()?;
        Ok(Self::for_target(b, v, target))
    }
}

/// `b,h,v` or `b,v`
///
/// # Errors
/// What is wrong, and with which number.
pub(crate) fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    match parts[..] {
        [b, h, v] => {
            let [b, h] = [parse_size("b", b)?, parse_size("h", h)?];
            Ok(Sizes::Three([b, h, parse_size("v", v)?]))
        }
        [b, v] => Ok(Sizes::Two([parse_size("b", b)?, parse_size("v", v)?])),
        _ => Err(format!(
            "{} numbers; give three, for tokens, hidden and vocabulary: 128,512,1024; or two, for tokens and \
             vocabulary, of an op on given logits: 128,2048",
            parts.len()
        )),
    }
}

/// Parses `b,h`: blocks of a product, whose columns are those of delta.
///
/// # Errors
/// What is wrong, and with which number.
pub(crate) fn parse_product_sizes(text: &str) -> Result<[usize; 2], String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    match parts[..] {
        [b, h] => Ok([parse_size("b", b)?, parse_size("h", h)?]),
        _ => Err(format!(
            "{} numbers; give two, for tokens and hidden: 512,1024",
            parts.len()
        )),
    }
}

fn parse_size(name: &str, text: &str) -> Result<usize, String> {
    match text.parse::<u32>() {
        Ok(size @ 1..=MAX_BLOCK) => Ok(size as usize),
        _ => Err(format!(
            "block size {name} is `{text}`; it must be a whole number from 1 to {MAX_BLOCK}"
        )),
    }
}

/// The largest dimension there is.
const MAX_BLOCK: u32 = i32::MAX as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_head_are_three_numbers() {
        let blocks = |text| parse_sizes(text).and_then(|s| s.of_head().map_err(|e| e.to_string()));
        assert_eq!(blocks("8, 16,32").unwrap(), Blocks { b: 8, h: 16, v: 32 });
        for (text, error) in [
            ("8,16", "2 numbers; give three"),
            ("8", "1 numbers; give three"),
            ("8,16,32,64", "4 numbers; give three"),
            (
                "8,0,32",
                "block size h is `0`; it must be a whole number from 1 to 2147483647",
            ),
            ("8,16,2147483648", "block size v is `2147483648`"),
            ("a,16,32", "block size b is `a`"),
        ] {
            assert!(blocks(text).unwrap_err().contains(error), "{text}");
        }
    }

    #[test]
    fn blocks_of_a_product_are_two_numbers() {
        assert_eq!(parse_product_sizes("512, 1024"), Ok([512, 1024]));
        let refused = |text| parse_product_sizes(text).unwrap_err();
        assert!(refused("512,1024,768").contains("3 numbers; give two"));
        assert!(refused("512,0").contains("block size h is `0`"));
    }

    #[test]
    fn blocks_of_logits_are_two_numbers() {
        assert_eq!(parse_sizes("8,512").unwrap().of_logits().unwrap(), [8, 512]);
        let refused = parse_sizes("8,16,512").unwrap().of_logits().unwrap_err();
        assert!(refused.to_string().contains("3 numbers; give two"));
        assert!(
            parse_sizes("8,0")
                .unwrap_err()
                .contains("block size v is `0`")
        );
    }
}
