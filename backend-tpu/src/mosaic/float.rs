//! Floating-point formats as bit patterns, and their decimal text.
//!
//! A constant of a kernel is a bit pattern of a format that the host may not have (bf16, the 8-bit
//! formats). It is kept as those bits, so that nothing is lost between reading and writing. All
//! formats are of one shape: a sign, `e` exponent bits with a bias, `m` mantissa bits; they differ
//! in what the largest exponent means. Decoding to f64 is exact for all of them; encoding rounds to
//! nearest, ties to even, from the f64.
//!
//! The text follows MLIR's printer: six decimals in scientific form if that reads back to the same
//! bits, else as many digits as the format needs, else (infinities, NaN, large integers) the bits in
//! hexadecimal.

/// A floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FloatKind {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
    /// Four exponent, three mantissa bits, no infinities.
    F8E4M3FN,
    /// Five exponent, two mantissa bits, with infinities.
    F8E5M2,
    /// Four exponent, three mantissa bits, bias 11, one NaN, no negative zero.
    F8E4M3B11FNUZ,
    /// Two exponent, one mantissa bit, finite values only.
    F4E2M1FN,
}

/// What the largest exponent and the negative zero mean.
#[derive(Clone, Copy, PartialEq)]
enum Specials {
    Ieee,
    /// All ones is NaN, no infinity.
    NanOnly,
    /// The pattern of negative zero is the only NaN.
    Unsigned,
    Finite,
}

impl FloatKind {
    /// Every format, widest first.
    pub const ALL: [Self; 8] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::F8E4M3FN,
        Self::F8E5M2,
        Self::F8E4M3B11FNUZ,
        Self::F4E2M1FN,
    ];

    /// The name of the type in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F8E4M3FN => "f8E4M3FN",
            Self::F8E5M2 => "f8E5M2",
            Self::F8E4M3B11FNUZ => "f8E4M3B11FNUZ",
            Self::F4E2M1FN => "f4E2M1FN",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Exponent bits, mantissa bits, bias, specials.
    fn layout(self) -> (u32, u32, i32, Specials) {
        match self {
            Self::F64 => (11, 52, 1023, Specials::Ieee),
            Self::F32 => (8, 23, 127, Specials::Ieee),
            Self::F16 => (5, 10, 15, Specials::Ieee),
            Self::BF16 => (8, 7, 127, Specials::Ieee),
            Self::F8E4M3FN => (4, 3, 7, Specials::NanOnly),
            Self::F8E5M2 => (5, 2, 15, Specials::Ieee),
            Self::F8E4M3B11FNUZ => (4, 3, 11, Specials::Unsigned),
            Self::F4E2M1FN => (2, 1, 1, Specials::Finite),
        }
    }

    /// Width in bits.
    pub fn bits(self) -> u32 {
        let (e, m, ..) = self.layout();
        1 + e + m
    }

    /// The value of a bit pattern; exact.
    pub fn decode(self, bits: u64) -> f64 {
        if self == Self::F64 {
            return f64::from_bits(bits);
        }
        let (e, m, bias, specials) = self.layout();
        let sign = if bits >> (e + m) & 1 == 1 { -1.0 } else { 1.0 };
        let top = (1_u64 << e) - 1;
        let (exponent, mantissa) = (bits >> m & top, bits & ((1 << m) - 1));
        match specials {
            Specials::Ieee if exponent == top => {
                return if mantissa == 0 {
                    sign * f64::INFINITY
                } else {
                    f64::NAN
                };
            }
            Specials::NanOnly if exponent == top && mantissa == (1 << m) - 1 => return f64::NAN,
            Specials::Unsigned if exponent == 0 && mantissa == 0 && sign < 0.0 => return f64::NAN,
            _ => {}
        }
        let scale = |p: i32| 2.0_f64.powi(p);
        let fraction = mantissa as f64;
        let m = m as i32;
        if exponent == 0 {
            sign * fraction * scale(1 - bias - m)
        } else {
            sign * (fraction + scale(m)) * scale(exponent as i32 - bias - m)
        }
    }

    /// The bit pattern nearest to a value, ties to even. Values too large become the infinity, or,
    /// where there is none, the NaN or the largest finite value.
    pub fn encode(self, value: f64) -> u64 {
        match self {
            Self::F64 => return value.to_bits(),
            Self::F32 => return u64::from((value as f32).to_bits()),
            _ => {}
        }
        let (e, m, bias, specials) = self.layout();
        let top = (1_u64 << e) - 1;
        let sign = u64::from(value.is_sign_negative()) << (e + m);
        let nan = match specials {
            Specials::Ieee => top << m | 1 << (m - 1),
            Specials::NanOnly => (1 << (e + m)) - 1,
            Specials::Unsigned => 1 << (e + m),
            Specials::Finite => (1 << (e + m)) - 1,
        };
        if value.is_nan() {
            return if specials == Specials::Unsigned {
                nan
            } else {
                sign | nan
            };
        }
        let magnitude = value.abs();
        if magnitude == 0.0 {
            return if specials == Specials::Unsigned {
                0
            } else {
                sign
            };
        }
        let largest = match specials {
            Specials::Ieee => (top << m) - 1,
            Specials::NanOnly => (1 << (e + m)) - 2,
            Specials::Unsigned | Specials::Finite => (1 << (e + m)) - 1,
        };
        let overflow = match specials {
            Specials::Ieee => top << m,
            Specials::NanOnly => nan,
            Specials::Unsigned | Specials::Finite => largest,
        };
        if magnitude.is_infinite() {
            return sign | overflow;
        }
        // Units of the last place at this magnitude, then one exact rounding step.
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - bias);
        let units = (magnitude * 2.0_f64.powi(m as i32 - exponent)).round_ties_even() as u64;
        let pattern = ((exponent + bias - 1) as u64) * (1 << m) + units;
        if pattern > largest {
            sign | overflow
        } else {
            sign | pattern
        }
    }

    /// Decimal digits that identify every value of the format.
    fn digits(self) -> usize {
        let significant = self.layout().1 as usize + 1;
        2 + significant * 59 / 196
    }

    /// The text of a bit pattern as MLIR prints it.
    pub fn to_text(self, bits: u64) -> String {
        let value = self.decode(bits);
        if value.is_finite() {
            let short = scientific(value, 6);
            if self.parse(&short) == Some(bits) {
                return short;
            }
            let long = natural(value, self.digits());
            if long.contains('.') && self.parse(&long) == Some(bits) {
                return long;
            }
        }
        format!(
            "0x{bits:0width$X}",
            width = self.bits().div_ceil(4) as usize
        )
    }

    /// The bit pattern of a decimal text.
    pub fn parse(self, text: &str) -> Option<u64> {
        if self == Self::F32 {
            return text.parse::<f32>().ok().map(|v| u64::from(v.to_bits()));
        }
        text.parse::<f64>().ok().map(|v| self.encode(v))
    }
}

/// Digits and decimal exponent of `value` rounded to `precision + 1` digits.
fn digits_of(value: f64, precision: usize) -> (bool, String, i32) {
    let text = format!("{:.precision$e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (
        value.is_sign_negative(),
        mantissa.replace('.', ""),
        exponent.parse().unwrap_or(0),
    )
}

/// `-1.250000e-01`.
fn scientific(value: f64, precision: usize) -> String {
    let (negative, digits, exponent) = digits_of(value, precision);
    let sign = if negative { "-" } else { "" };
    let esign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{}.{}e{esign}{:02}",
        &digits[..1],
        &digits[1..],
        exponent.abs()
    )
}

/// The shortest usual notation with up to `count` digits: plain if few zeros pad it, else scientific.
fn natural(value: f64, count: usize) -> String {
    let (negative, digits, exponent) = digits_of(value, count - 1);
    let sign = if negative { "-" } else { "" };
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let n = digits.len() as i32;
    let last = exponent - n + 1;
    let plain = if last >= 0 {
        last <= 3 && n + last <= count as i32
    } else {
        exponent >= -3
    };
    if !plain {
        let fraction = if n == 1 { "0" } else { &digits[1..] };
        let esign = if exponent < 0 { '-' } else { '+' };
        return format!(
            "{sign}{}.{fraction}E{esign}{}",
            &digits[..1],
            exponent.abs()
        );
    }
    if last >= 0 {
        return format!("{sign}{digits}{}", "0".repeat(last as usize));
    }
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let (whole, fraction) = digits.split_at(exponent as usize + 1);
    format!("{sign}{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_mlir() {
        let f32_text = |v: f32| FloatKind::F32.to_text(u64::from(v.to_bits()));
        assert_eq!(f32_text(0.125), "1.250000e-01");
        assert_eq!(f32_text(-2.381_976_3e38), "-2.38197633E+38");
        assert_eq!(f32_text(1.0 / 3.0), "0.333333343");
        assert_eq!(f32_text(std::f32::consts::LN_2), "6.931472e-01");
        assert_eq!(f32_text(f32::NEG_INFINITY), "0xFF800000");
        assert_eq!(f32_text(0.1), "1.000000e-01");
        assert_eq!(f32_text(-0.0), "-0.000000e+00");
        assert_eq!(FloatKind::BF16.to_text(0xFF80), "0xFF80");
        assert_eq!(FloatKind::BF16.to_text(0), "0.000000e+00");
    }

    #[test]
    fn every_small_pattern_survives_text_and_value() {
        for kind in FloatKind::ALL.into_iter().filter(|k| k.bits() <= 16) {
            for bits in 0..1_u64 << kind.bits() {
                let value = kind.decode(bits);
                if value.is_nan() {
                    assert!(
                        kind.decode(kind.encode(value)).is_nan(),
                        "{kind:?} {bits:#x}"
                    );
                    continue;
                }
                assert_eq!(kind.encode(value), bits, "{kind:?} {bits:#x} {value}");
                let text = kind.to_text(bits);
                if !text.starts_with("0x") {
                    assert_eq!(kind.parse(&text), Some(bits), "{kind:?} {bits:#x} {text}");
                }
            }
        }
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        assert_eq!(FloatKind::BF16.encode(1.0 + 1.0 / 256.0), 0x3F80);
        assert_eq!(FloatKind::BF16.encode(1.0 + 3.0 / 256.0), 0x3F82);
        assert_eq!(FloatKind::BF16.encode(1e39), 0x7F80);
        assert!(
            FloatKind::F8E4M3FN
                .decode(FloatKind::F8E4M3FN.encode(1e9))
                .is_nan()
        );
    }
}
