//! Texts cut into tokens, for tests that damage them.

/// Byte ranges of the tokens, roughly: words with their sigils, numbers, strings, single marks.
pub(crate) fn tokens(text: &str) -> Vec<(usize, usize)> {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$');
    let bytes = text.as_bytes();
    let (mut out, mut i) = (Vec::new(), 0);
    while i < bytes.len() {
        let start = i;
        i += 1;
        match bytes[start] {
            b if b.is_ascii_whitespace() => continue,
            b'"' => {
                while i < bytes.len() && bytes[i] != b'"' {
                    i += 1;
                }
                i = (i + 1).min(bytes.len());
            }
            b'-' if bytes.get(i) == Some(&b'>') => i += 1,
            b if word(b) || matches!(b, b'%' | b'@' | b'^' | b'#' | b'!') => {
                while i < bytes.len() && word(bytes[i]) {
                    i += 1;
                }
            }
            _ => {}
        }
        out.push((start, i));
    }
    out
}
