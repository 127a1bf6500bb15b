//! Tokens.
//!
//! One token is read ahead. Shapes (`8x128xf32`) do not split into tokens sensibly, so the parser
//! may step back to the start of the token and read characters instead.

/// A token; names without their sigil.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A word, may contain dots: `func.func`, `dense`.
    Word(String),
    /// `%name`
    Value(String),
    /// `@name`
    Symbol(String),
    /// `^name`
    Block(String),
    /// `#name`
    Hash(String),
    /// `!name`
    Bang(String),
    /// Digits, or `0x` and hexadecimal digits.
    Integer(String),
    /// Digits with a point.
    Float(String),
    /// The bytes of a string literal.
    Text(Vec<u8>),
    /// `->`
    Arrow,
    /// One character of punctuation.
    Mark(char),
    /// A string without end, or a sigil without name.
    Broken(String),
    End,
}

impl Token {
    /// How an error names it.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(s) | Self::Integer(s) | Self::Float(s) => format!("`{s}`"),
            Self::Value(s) => format!("`%{s}`"),
            Self::Symbol(s) => format!("`@{s}`"),
            Self::Block(s) => format!("`^{s}`"),
            Self::Hash(s) => format!("`#{s}`"),
            Self::Bang(s) => format!("`!{s}`"),
            Self::Text(s) => format!("\"{}\"", String::from_utf8_lossy(s)),
            Self::Arrow => "`->`".into(),
            Self::Mark(c) => format!("`{c}`"),
            Self::Broken(what) => what.clone(),
            Self::End => "the end of the text".into(),
        }
    }
}

pub(super) struct Lexer<'t> {
    pub(super) text: &'t str,
    pub(super) position: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, position: 0 }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.position..]
    }

    pub(super) fn peek_char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn take_while(&mut self, mut keep: impl FnMut(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.position += end;
        &rest[..end]
    }

    pub(super) fn skip_space(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest().starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    /// Skips space, then reads a token.
    pub(super) fn token(&mut self) -> Token {
        self.skip_space();
        let Some(c) = self.peek_char() else {
            return Token::End;
        };
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        if c.is_ascii_alphabetic() || c == '_' {
            return Token::Word(self.take_while(word).into());
        }
        if c.is_ascii_digit() {
            return self.number();
        }
        if c == '"' {
            return self.string();
        }
        self.position += c.len_utf8();
        match c {
            '%' | '^' | '#' | '!' | '@' => {
                if c == '@' && self.peek_char() == Some('"') {
                    return match self.string() {
                        Token::Text(s) => Token::Symbol(String::from_utf8_lossy(&s).into_owned()),
                        other => other,
                    };
                }
                let dash = matches!(c, '%' | '^' | '@');
                let name = self
                    .take_while(|c| word(c) || (dash && c == '-'))
                    .to_owned();
                if name.is_empty() {
                    return Token::Broken(format!("`{c}` without a name"));
                }
                match c {
                    '%' => Token::Value(name),
                    '^' => Token::Block(name),
                    '#' => Token::Hash(name),
                    '!' => Token::Bang(name),
                    _ => Token::Symbol(name),
                }
            }
            '-' if self.peek_char() == Some('>') => {
                self.position += 1;
                Token::Arrow
            }
            _ => Token::Mark(c),
        }
    }

    fn number(&mut self) -> Token {
        let start = self.position;
        let rest = self.rest().as_bytes();
        if rest.starts_with(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
            self.position += 2;
            self.take_while(|c| c.is_ascii_hexdigit());
            return Token::Integer(self.text[start..self.position].into());
        }
        self.take_while(|c| c.is_ascii_digit());
        if self.peek_char() != Some('.') {
            return Token::Integer(self.text[start..self.position].into());
        }
        self.position += 1;
        self.take_while(|c| c.is_ascii_digit());
        let tail = self.rest().as_bytes();
        if matches!(tail.first(), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(tail.get(1), Some(b'+' | b'-')));
            if tail.get(1 + sign).is_some_and(u8::is_ascii_digit) {
                self.position += 1 + sign;
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        Token::Float(self.text[start..self.position].into())
    }

    fn string(&mut self) -> Token {
        self.position += 1;
        let mut bytes = Vec::new();
        let mut rest = self.rest().bytes().enumerate();
        while let Some((i, byte)) = rest.next() {
            match byte {
                b'"' => {
                    self.position += i + 1;
                    return Token::Text(bytes);
                }
                b'\n' => break,
                b'\\' => match rest.next().map(|x| x.1) {
                    Some(b'n') => bytes.push(b'\n'),
                    Some(b't') => bytes.push(b'\t'),
                    Some(c @ (b'"' | b'\\')) => bytes.push(c),
                    Some(high) => {
                        let digit = |b: u8| (b as char).to_digit(16);
                        let low = rest.next().map_or(0, |x| x.1);
                        match (digit(high), digit(low)) {
                            (Some(h), Some(l)) => bytes.push((h * 16 + l) as u8),
                            _ => break,
                        }
                    }
                    None => break,
                },
                _ => bytes.push(byte),
            }
        }
        self.take_while(|c| c != '\n');
        Token::Broken("a string that does not end".into())
    }
}
