//! Cache sizes of this machine.

use std::sync::LazyLock;

/// Bytes of level 2 cache of one core; 1 MiB where the system does not say.
pub(crate) fn level_2_bytes() -> usize {
    static BYTES: LazyLock<usize> = LazyLock::new(|| {
        let of_level_2 = (0..8).find_map(|i| {
            let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{i}");
            let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).ok();
            (read("level")?.trim() == "2").then(|| parse(read("size")?.trim()))?
        });
        of_level_2.unwrap_or(1 << 20)
    });
    *BYTES
}

/// Sizes read like `1024K`.
fn parse(size: &str) -> Option<usize> {
    let (number, unit) = match size.as_bytes().last()? {
        b'K' => (&size[..size.len() - 1], 1 << 10),
        b'M' => (&size[..size.len() - 1], 1 << 20),
        _ => (size, 1),
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("2048K"), Some(2 << 20));
        assert_eq!(parse("1M"), Some(1 << 20));
        assert_eq!(parse("512"), Some(512));
        assert_eq!(parse("many"), None);
    }

    #[test]
    fn this_machine_has_a_plausible_cache() {
        assert!((64 << 10..64 << 20).contains(&level_2_bytes()));
    }
}
